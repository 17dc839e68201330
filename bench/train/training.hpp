// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/train/attention_bits.hpp"
#include "bench/train/options.hpp"

namespace ringspan::bench {

/// What one training step was like.
struct TrainedStep {
  int step = 0;     // from 1
  double loss = 0;  // per token, in nats, before the update
  double seconds = 0;
  std::int64_t activation_bytes = 0;          // the most that a rank had, but for the next line
  std::int64_t parameter_bytes = 0;           // of a rank: parameters, gradients, optimizer state
  std::int64_t sent_bytes = 0;                // the most that a rank sent, to whomever
  std::vector<AttentionBits> attention = {};  // of step 1, to compare reproducible sums
};

/// Throws invalid_argument for what the transport, the mesh and the schedule cannot do together,
/// before anything is trained. Every process of the transport calls it.
void require_possible_on(std::string_view transport, const TrainOptions& options);

/// Trains on `transport` as the options say, and calls `report` with each step on world rank 0 when
/// it has ended. Every process of the transport calls it.
void train_on(std::string_view transport, const TrainOptions& options, const std::string& text,
              const std::function<void(const TrainedStep&)>& report);

}  // namespace ringspan::bench
