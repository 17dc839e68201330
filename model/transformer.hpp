// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "attention/schedule.hpp"
#include "model/block.hpp"
#include "model/loss.hpp"
#include "model/mesh.hpp"
#include "model/model_config.hpp"
#include "model/parameters.hpp"
#include "model/tokens.hpp"

namespace ringspan::model {

/// A decoder-only language model, one rank's part of it: embedding, blocks, norm, head. Embedding
/// and head are whole on every rank of a tensor group, for a vocabulary of bytes is small, and each
/// does the tokens of its piece. Every call is collective over the sequence and tensor groups.
class Transformer {
 public:
  /// `schedule`, over mesh.sequence(), outlives the model. Throws invalid_argument for a config or
  /// a mesh that cannot be.
  Transformer(const ModelConfig& config, const MemoryOptions& memory, const Mesh& mesh,
              attention::Schedule& schedule);

  const ModelConfig& config() const { return config_; }
  Parameters& parameters() { return parameters_; }

  /// Throws invalid_argument for batches that the schedule cannot do, before anything moves.
  void require_possible(const attention::Sequence& sequence, std::int64_t batch) const {
    schedule_.require_possible(problem(sequence, batch));
  }

  /// Of this rank's tokens; the shard of `sequence` that the schedule says, whole (the model cuts
  /// it among the tensor group). Attention is causal, within documents and, with config.window,
  /// within a window. Dropout is that of training at `step`: to evaluate, give the config none.
  LossSum loss(const attention::Sequence& sequence, const Tokens& shard, std::int64_t step = 0);

  /// The same, and adds the gradient of the SUM over this rank's tokens to the parameters'
  /// gradients.
  LossSum loss_and_gradients(const attention::Sequence& sequence, const Tokens& shard,
                             std::int64_t step);

 private:
  LossSum run(const attention::Sequence& sequence, const Tokens& shard, std::int64_t step,
              bool gradients);
  attention::Problem problem(const attention::Sequence& sequence, std::int64_t batch) const;
  /// Makes the plan, unless the last one was for the same.
  void prepare(const attention::Sequence& sequence, std::int64_t batch);
  void require_tokens(const attention::Sequence& sequence, const Tokens& shard) const;
  Matrix embed(const Pass& pass) const;
  void embed_backward(const Pass& pass, const Matrix& d_x);
  /// The loss from the last block's z and, unless d_z is null, its gradient.
  LossSum head(const Pass& pass, const Matrix& z, const Matrix* d_z);
  DropoutKey embedding_key(const Pass& pass) const;

  ModelConfig config_;
  MemoryOptions memory_;
  comm::Communicator tensor_;
  attention::Schedule& schedule_;
  Parameters parameters_;
  Parameter& embedding_;
  Parameter* positions_ = nullptr;  // gpt
  std::deque<Block> blocks_;
  std::optional<Norm> norm_;
  std::optional<Linear> head_;

  // Of the last call.
  std::optional<attention::Problem> problem_;
  std::unique_ptr<attention::Plan> plan_;
};

}  // namespace ringspan::model
