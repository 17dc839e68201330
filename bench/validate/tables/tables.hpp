// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/validate/table.hpp"

namespace ringspan::bench {

// What TableEntry points to, a file for each; see tables.cpp.

bool has_ring_flash_attention(const PublishedRow& row);
Table read_ring_flash_attention(const std::vector<PublishedRow>& rows);

bool has_usp_paper(const PublishedRow& row);
bool has_usp_long(const PublishedRow& row);
bool has_usp_short(const PublishedRow& row);
bool has_attention_operator(const PublishedRow& row);
Table read_attention_operator(const std::vector<PublishedRow>& rows);

bool has_usp_gqa(const PublishedRow& row);
Table read_usp_gqa(const std::vector<PublishedRow>& rows);

bool has_striped_gpu(const PublishedRow& row);
bool has_striped_tpu(const PublishedRow& row);
Table read_striped(const std::vector<PublishedRow>& rows);

bool has_ring_attention_blocks(const PublishedRow& row);
Table read_ring_attention_blocks(const std::vector<PublishedRow>& rows);
bool has_ring_attention_contexts(const PublishedRow& row);
Table read_ring_attention_contexts(const std::vector<PublishedRow>& rows);

/// Why a row is in none of the tables.
std::string why_not(const PublishedRow& row);

}  // namespace ringspan::bench
