// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "attention/schedule.hpp"
#include "model/layers/dropout.hpp"
#include "model/tensor_group.hpp"
#include "model/tokens.hpp"

namespace ringspan::model {

/// What all layers share in one pass over a batch of sequences of one length. Matrices named x, y
/// and z have the rows of `piece`; those inside attention and MLP the rows of `shard`.
struct Pass {
  const TensorGroup& group;
  attention::Plan& plan;
  const Tokens& shard;    // of this rank's sequence group position
  const Tokens& piece;    // what this rank of the tensor group has of them
  std::int64_t step = 0;  // of training: dropout differs from step to step

  comm::Device& device() const { return group.device(); }
};

}  // namespace ringspan::model
