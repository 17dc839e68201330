// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "bench/ask/cluster_file.hpp"
#include "bench/ask/models.hpp"
#include "bench/ask/option.hpp"
#include "comm/cluster.hpp"

namespace ringspan::bench {

/// A training step that is to be spread over some GPUs of a cluster.
struct PlanOptions {
  Model model;
  comm::Cluster cluster;
  std::int64_t ranks = 1;
  std::int64_t sequence_length = 1;
  std::int64_t global_batch = 1;  // sequences of a step
  double memory_limit = 0;        // bytes of each GPU
  double time_limit = 600;        // seconds that planning may take
  bool json = false;
};

std::span<const OptionEntry> plan_option_entries();

/// Throws invalid_argument with one line that names the option, and lists the known values.
PlanOptions plan_options(const OptionTexts& texts, const Clusters& clusters);

}  // namespace ringspan::bench
