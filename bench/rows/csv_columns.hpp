// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "bench/rows/row.hpp"

namespace ringspan::bench {

/// The columns of the CSV: a contract, in this order.
inline constexpr std::array kColumns = {
    "machine",
    "commit",
    "world",
    "transport",
    "device",
    "cluster",
    "kernel",
    "schedule",
    "layout",
    "pass",
    "dtype",
    "ranks",
    "ranks_per_node",
    "ulysses_degree",
    "ring_degree",
    "inner_ring",
    "head_groups",
    "placement",
    "all_to_all",
    "hop",
    "backward",
    "sequence_length",
    "batch",
    "heads",
    "kv_heads",
    "head_dim",
    "value_dim",
    "mask",
    "repeats",
    "median_s",
    "p10_s",
    "p90_s",
    "compute_s",
    "synchronised_s",
    "communication_s",
    "imbalance_s",
    "exposed_s",
    "serial_share",
    "exposed_share",
    "hidden",
    "hideable",
    "overlap_efficiency",
    "compute_slowdown",
    "tokens_per_s",
    "tflops_per_rank",
    "strong_efficiency",
    "weak_efficiency",
    "bytes_sent_per_rank",
    "inter_node_bytes_per_rank",
    "messages_sent_per_rank",
    "peak_bytes_per_rank",
    "max_abs_error",
    "status",
};

using Cells = std::array<std::string, kColumns.size()>;

/// The text of every column; empty where nothing was measured.
Cells cells(const Row& row);

/// Place of a column; `name` is one of kColumns.
std::size_t column(std::string_view name);

/// What makes the point of a row the same point: its axes as the CSV writes them.
std::string key(const Cells& row);

}  // namespace ringspan::bench
