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
Table read_usp_readme(const std::vector<PublishedRow>& rows);
Table read_usp_paper(const std::vector<PublishedRow>& rows);

bool has_usp_gqa(const PublishedRow& row);
Table read_usp_gqa(const std::vector<PublishedRow>& rows);

bool has_striped_gpu(const PublishedRow& row);
bool has_striped_tpu(const PublishedRow& row);
Table read_striped(const std::vector<PublishedRow>& rows);

bool has_ring_attention_blocks(const PublishedRow& row);
Table read_ring_attention_blocks(const std::vector<PublishedRow>& rows);
bool has_ring_attention_contexts(const PublishedRow& row);
Table read_ring_attention_contexts(const std::vector<PublishedRow>& rows);

bool has_megatron_times(const PublishedRow& row);
bool has_megatron_shares(const PublishedRow& row);
Table read_megatron(const std::vector<PublishedRow>& rows);

bool has_usp_training(const PublishedRow& row);
Table read_usp_training(const std::vector<PublishedRow>& rows);

bool has_alst(const PublishedRow& row);
Table read_alst(const std::vector<PublishedRow>& rows);

bool has_fpdt(const PublishedRow& row);
Table read_fpdt(const std::vector<PublishedRow>& rows);
bool has_easycontext(const PublishedRow& row);
Table read_easycontext(const std::vector<PublishedRow>& rows);
bool has_loongtrain(const PublishedRow& row);
Table read_loongtrain(const std::vector<PublishedRow>& rows);
bool has_llama3(const PublishedRow& row);
Table read_llama3(const std::vector<PublishedRow>& rows);

/// Why a row is in none of the tables.
std::string why_not(const PublishedRow& row);

}  // namespace ringspan::bench
