// SPDX-License-Identifier: Apache-2.0
#include "model/adamw.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "comm/collectives.hpp"

namespace ringspan::model {

AdamW::AdamW(const AdamWConfig& config, Parameters& parameters, comm::Communicator shard)
    : config_(config), parameters_(parameters), shard_(std::move(shard)) {
  const auto require_fraction = [](std::string_view what, double value) {
    RINGSPAN_REQUIRE(value >= 0 && value < 1, what, " is ", value,
                     "; it must be at least 0 and less than 1");
  };
  require_fraction("beta1", config.beta1);
  require_fraction("beta2", config.beta2);
  RINGSPAN_REQUIRE(config.learning_rate >= 0 && std::isfinite(config.learning_rate),
                   "learning_rate is ", config.learning_rate, "; it must be at least 0");
  RINGSPAN_REQUIRE(config.weight_decay >= 0 && std::isfinite(config.weight_decay),
                   "weight_decay is ", config.weight_decay, "; it must be at least 0");
  RINGSPAN_REQUIRE(config.epsilon > 0, "epsilon is ", config.epsilon, "; it must be above 0");
  m_ = Matrix(shard_.device(), parameters.dtype(), 1, part(shard_.rank()).count);
  v_ = like(shard_.device(), m_);
  fill(m_, 0);
  fill(v_, 0);
}

void AdamW::step() {
  ++steps_;
  for (const Parameter& parameter : parameters_.all()) update(parameter);
  fill(parameters_.gradients(), 0);

  const comm::Slice all = parameters_.values().slice();
  const std::int64_t width = attention::element_bytes(parameters_.dtype());
  std::vector<comm::Slice> parts;
  for (int rank = 0; rank < shard_.size(); ++rank) {
    parts.push_back(
        comm::slice(all.buffer, all.offset + part(rank).first * width, part(rank).count * width));
  }
  comm::all_gather(shard_, parts);
}

void AdamW::update(const Parameter& parameter) {
  const Part own = part(shard_.rank());
  const std::int64_t first = std::max(own.first, parameter.first);
  const std::int64_t end =
      std::min(own.first + own.count, parameter.first + parameter.value.elements());
  const double correct_m = 1 / (1 - std::pow(config_.beta1, steps_));
  const double correct_v = 1 / (1 - std::pow(config_.beta2, steps_));
  const double decay = parameter.decays() ? config_.weight_decay : 0;
  with_real(parameters_.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    Real *const m = m_.data<Real>() - own.first, *const v = v_.data<Real>() - own.first;
    Real* const w = parameters_.values().data<Real>();
    const Real* const g = parameters_.gradients().data<Real>();
    for (std::int64_t i = first; i < end; ++i) {
      m[i] = static_cast<Real>(config_.beta1 * m[i] + (1 - config_.beta1) * g[i]);
      v[i] = static_cast<Real>(config_.beta2 * v[i] + (1 - config_.beta2) * g[i] * g[i]);
      const double step = m[i] * correct_m / (std::sqrt(v[i] * correct_v) + config_.epsilon);
      w[i] = static_cast<Real>(w[i] - config_.learning_rate * (step + decay * w[i]));
    }
  });
}

}  // namespace ringspan::model
