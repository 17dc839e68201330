// SPDX-License-Identifier: Apache-2.0
#include "model/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/layers/cross_entropy.hpp"
#include "model/layers/embedding.hpp"

namespace ringspan::model {

Transformer::Transformer(const ModelConfig& config, const MemoryOptions& memory, const Mesh& mesh,
                         attention::Schedule& schedule)
    : config_((require_valid(config, mesh.tensor().size()), config)),
      memory_((require_valid(memory), memory)),
      tensor_(mesh.tensor()),
      schedule_(schedule),
      parameters_(tensor_, config.dtype),
      embedding_(parameters_.add({"embedding",
                                  config.vocabulary,
                                  config.hidden,
                                  Cut::none,
                                  {0, config.weight_deviation}})) {
  require_trainable(mesh.shape());
  if (config.variant == Variant::gpt) {
    positions_ = &parameters_.add(
        {"positions", config.positions, config.hidden, Cut::none, {0, config.weight_deviation}});
  }
  for (std::int64_t index = 0; index < config.layers; ++index) {
    blocks_.emplace_back(parameters_, concat("block", index), config, memory, index);
  }
  norm_.emplace(parameters_, "norm", config);
  head_.emplace(parameters_, "head", config.hidden, config.vocabulary, Cut::none,
                config.weight_deviation);
  parameters_.allocate(config.seed);
}

LossSum Transformer::loss(const attention::Sequence& sequence, const Tokens& shard,
                          std::int64_t step) {
  return run(sequence, shard, step, false);
}

LossSum Transformer::loss_and_gradients(const attention::Sequence& sequence, const Tokens& shard,
                                        std::int64_t step) {
  return run(sequence, shard, step, true);
}

LossSum Transformer::run(const attention::Sequence& sequence, const Tokens& shard,
                         std::int64_t step, bool gradients) {
  require_tokens(sequence, shard);
  prepare(sequence, shard.batch);
  const TensorGroup group(tensor_, shard.rows() / shard.batch, shard.batch);
  const Tokens piece = shard.part(group.piece().first, group.piece().count);
  const Pass pass{group, *plan_, shard, piece, step};

  std::vector<BlockState> states(blocks_.size());
  Matrix x = embed(pass);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i].forward(pass, x, gradients ? &states[i] : nullptr);
  }
  if (!gradients) return head(pass, x, nullptr);

  Matrix gradient = like(pass.device(), x);
  const LossSum loss = head(pass, x, &gradient);
  x = {};
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    gradient = blocks_[i].backward(pass, std::move(states[i]), std::move(gradient));
  }
  embed_backward(pass, gradient);
  return loss;
}

attention::Problem Transformer::problem(const attention::Sequence& sequence,
                                        std::int64_t batch) const {
  attention::Problem problem;
  problem.shape = {batch,
                   config_.heads / tensor_.size(),
                   config_.kv_heads / tensor_.size(),
                   config_.head_dim,
                   config_.head_dim,
                   config_.dtype,
                   config_.reproducible};
  problem.sequence = sequence;
  problem.mask = {.left = config_.window, .right = 0, .documents = !sequence.documents.empty()};
  return problem;
}

void Transformer::prepare(const attention::Sequence& sequence, std::int64_t batch) {
  if (problem_ && problem_->shape.batch == batch && problem_->sequence.length == sequence.length &&
      problem_->sequence.documents == sequence.documents) {
    return;
  }
  problem_.reset();
  plan_.reset();  // the buffers of the last one go before the next one's are there
  attention::Problem asked = problem(sequence, batch);
  plan_ = schedule_.plan(asked);
  problem_ = std::move(asked);
}

void Transformer::require_tokens(const attention::Sequence& sequence, const Tokens& shard) const {
  const std::int64_t rows = attention::tokens(schedule_.shard(sequence)) * shard.batch;
  for (const auto* const values :
       {&shard.ids, &shard.labels, &shard.positions, &shard.places, &shard.samples}) {
    RINGSPAN_REQUIRE(std::ssize(*values) == rows, "tokens: ", values->size(), " rows, but batch ",
                     shard.batch, " of this rank's shard has ", rows);
  }
  RINGSPAN_REQUIRE(shard.weights.empty() || std::ssize(shard.weights) == rows,
                   "tokens: ", shard.weights.size(), " weights for ", rows,
                   " rows; there is one of each row");
  for (const float weight : shard.weights) {
    RINGSPAN_REQUIRE(std::isfinite(weight) && weight >= 0, "weight of a token ", weight,
                     "; it must be finite and at least 0");
  }
  const auto require_below = [](std::string_view what, std::int64_t value, std::int64_t end) {
    RINGSPAN_REQUIRE(value >= 0 && value < end, what, " ", value, "; there are ", end);
  };
  for (const std::int64_t id : shard.ids) require_below("token id", id, config_.vocabulary);
  for (const std::int64_t label : shard.labels) {
    if (label != kIgnoredLabel) require_below("label", label, config_.vocabulary);
  }
  if (config_.variant == Variant::llama) return;
  for (const std::int64_t at : shard.positions) require_below("position", at, config_.positions);
}

// The blocks have the sites before this one.
DropoutKey Transformer::embedding_key(const Pass& pass) const {
  return {config_.dropout, config_.seed, pass.step, 2 * config_.layers};
}

Matrix Transformer::embed(const Pass& pass) const {
  Matrix x(pass.device(), config_.dtype, pass.piece.rows(), config_.hidden);
  fill(x, 0);
  look_up(embedding_.value, pass.piece.ids, x);
  if (positions_) look_up(positions_->value, pass.piece.positions, x);
  drop(x, pass.piece, 0, embedding_key(pass));
  return x;
}

void Transformer::embed_backward(const Pass& pass, const Matrix& d_x) {
  const Matrix dropped = drop_gradient(pass.device(), d_x, pass.piece, 0, embedding_key(pass));
  look_up_backward(dropped, pass.piece.ids, embedding_.gradient);
  if (positions_) look_up_backward(dropped, pass.piece.positions, positions_->gradient);
}

LossSum Transformer::head(const Pass& pass, const Matrix& z, const Matrix* d_z) {
  comm::Device& device = pass.device();
  LossSum total;
  for (std::int64_t tile = 0; tile < memory_.loss_tiles; ++tile) {
    const Part part = split_evenly(z.rows(), memory_.loss_tiles, tile);
    const Matrix of_tile = z.part(part.first, part.count);
    const Tokens tokens = pass.piece.part(part.first, part.count);
    const Matrix normed = norm_->forward(device, of_tile);
    const Matrix logits = head_->forward(device, normed);
    total += cross_entropy(logits, tokens.labels, tokens.weights);
    if (!d_z) continue;
    const Matrix d_normed = like(device, normed);
    head_->backward(device, normed, logits, d_normed);  // the logits have become their gradient
    norm_->backward(of_tile, d_normed, d_z->part(part.first, part.count));
  }
  return total;
}

}  // namespace ringspan::model
