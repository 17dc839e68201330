// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comm/communicator.hpp"
#include "comm/split_evenly.hpp"
#include "model/parameters.hpp"

namespace ringspan::model {

struct AdamWConfig {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // of matrices
};

/// AdamW (Loshchilov and Hutter 2019): m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
/// w -= rate (m' / (sqrt(v') + epsilon) + decay w), with m' and v' corrected for their start at 0.
/// Each rank of `shard` keeps m and v of its near-equal part of the parameters alone and updates
/// that part, which the others then receive (ZeRO-1, Rajbhandari et al. 2020).
class AdamW {
 public:
  /// Throws invalid_argument for rates that are none. `shard` holds ranks with the same parameters.
  AdamW(const AdamWConfig& config, Parameters& parameters, comm::Communicator shard);

  /// Collective over `shard`; gradients are reduced already, and zero afterwards.
  void step();

  std::int64_t state_bytes() const { return m_.bytes() + v_.bytes(); }

 private:
  Part part(int rank) const {
    return split_evenly(parameters_.values().elements(), shard_.size(), rank);
  }
  void update(const Parameter& parameter);

  AdamWConfig config_;
  Parameters& parameters_;
  comm::Communicator shard_;
  Matrix m_, v_;  // of this rank's part
  std::int64_t steps_ = 0;
};

}  // namespace ringspan::model
