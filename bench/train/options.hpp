// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "bench/ask/option.hpp"
#include "comm/launch.hpp"
#include "model/adamw.hpp"
#include "model/memory_options.hpp"
#include "model/mesh_shape.hpp"
#include "model/model_config.hpp"

namespace ringspan::bench {

struct TrainOptions {
  model::ModelConfig config;
  model::MemoryOptions memory;
  model::MeshShape mesh;
  std::string schedule;
  std::string kernel;
  int inner_ring = 0, head_groups = 0;  // 0: as the schedule has it
  attention::BackwardForm backward = attention::BackwardForm::kv;
  model::AdamWConfig optimizer;
  std::string text;                    // a file
  std::int64_t length = 0, batch = 0;  // tokens of a sample, samples of a step on all ranks
  int steps = 0;
  std::string transport;
  comm::Hop hop = comm::Hop::copy;
  std::optional<double> deadline;
  bool compare = false;
  std::string csv;  // empty: none

  int ranks() const { return mesh.tensor * mesh.sequence() * mesh.data(); }
};

std::span<const OptionEntry> train_option_entries();

/// Throws invalid_argument with one line that names the option, and lists the known values.
TrainOptions train_options(const OptionTexts& texts);

}  // namespace ringspan::bench
