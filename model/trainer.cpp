// SPDX-License-Identifier: Apache-2.0
#include "model/trainer.hpp"

#include "model/gradients.hpp"

namespace ringspan::model {

LossSum all_reduce(const Mesh& mesh, const LossSum& own) {
  return all_reduce(mesh.tensor(), all_reduce(mesh.gradient(), own));
}

Trainer::Trainer(Transformer& model, const Mesh& mesh, const AdamWConfig& config)
    : model_(model), mesh_(mesh), optimizer_(config, model.parameters(), mesh.shard()) {}

LossSum Trainer::step(const attention::Sequence& sequence, const Tokens& shard) {
  const LossSum own = model_.loss_and_gradients(sequence, shard, steps_++);
  const LossSum total = all_reduce(mesh_, own);
  reduce_gradients(mesh_, total, model_.parameters());
  optimizer_.step();
  require_equal_parameters(mesh_, model_.parameters());
  return total;
}

std::int64_t Trainer::parameter_bytes() const {
  const Parameters& parameters = model_.parameters();
  return parameters.values().bytes() + parameters.gradients().bytes() + optimizer_.state_bytes();
}

}  // namespace ringspan::model
