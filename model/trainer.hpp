// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "model/adamw.hpp"
#include "model/mesh.hpp"
#include "model/transformer.hpp"

namespace ringspan::model {

/// Takes training steps on all ranks of a mesh.
class Trainer {
 public:
  Trainer(Transformer& model, const Mesh& mesh, const AdamWConfig& config);

  /// Collective over the mesh: forward, backward, reduction, update. Returns the loss of all ranks'
  /// tokens before the update.
  LossSum step(const attention::Sequence& sequence, const Tokens& shard);

  /// Parameters, their gradients and the optimizer's state, of this rank; all else that its device
  /// counts during a step are activations and buffers.
  std::int64_t parameter_bytes() const;

 private:
  Transformer& model_;
  const Mesh& mesh_;
  AdamW optimizer_;
  std::int64_t steps_ = 0;
};

/// Collective over the mesh: the sum over all of its ranks.
LossSum all_reduce(const Mesh& mesh, const LossSum& own);

}  // namespace ringspan::model
