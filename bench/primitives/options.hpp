// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/ask/cluster_file.hpp"
#include "bench/ask/option.hpp"
#include "comm/cluster.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {

struct PrimitiveOptions {
  std::vector<std::string> primitives;  // empty: all that a transport has
  std::vector<std::string> transports;
  std::optional<comm::Cluster> cluster = {};  // of the simulated transport, with enough nodes
  std::vector<std::int64_t> ranks, bytes;
  int ranks_per_node = 0, inner_ring = 0;  // 0: as it is; the ranks of a node
  comm::Hop hop = comm::Hop::copy;
  int warmup = 3, repeats = 20;
  std::optional<double> deadline;
  std::string costs;  // the file for what an automatic all-to-all goes by; or empty
  enum class Format { table, csv, nccl } format = Format::table;
};

std::span<const OptionEntry> primitive_option_entries();

/// Throws invalid_argument with one line that names the option, and lists the known values.
PrimitiveOptions primitive_options(const OptionTexts& texts, const Clusters& clusters);

}  // namespace ringspan::bench
