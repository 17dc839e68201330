// SPDX-License-Identifier: Apache-2.0
#include "bench/train/attention_bits.hpp"

#include <cstddef>
#include <cstring>
#include <utility>

#include "bench/random.hpp"
#include "comm/collectives.hpp"

namespace ringspan::bench {
namespace {

using attention::ConstTensorView;

std::uint64_t bits_of(const ConstTensorView& view, std::int64_t at) {
  const std::int64_t bytes = attention::element_bytes(view.dtype);
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(view.data) + at * bytes,
              static_cast<std::size_t>(bytes));
  return bits;
}

class ObservedPlan final : public attention::Plan {
 public:
  ObservedPlan(std::unique_ptr<attention::Plan> plan, const attention::Shard& shard,
               ObservedSchedule::Log& log)
      : plan_(std::move(plan)), places_(attention::positions(shard)), log_(log) {}

  std::unique_ptr<attention::Saved> make_saved() override { return plan_->make_saved(); }

  void forward(const attention::Inputs& inputs, const attention::Outputs& outputs,
               attention::Saved* saved) override {
    plan_->forward(inputs, outputs, saved);
    take_down(outputs.out);
  }

  void backward(const attention::Inputs& inputs, const attention::Outputs& outputs,
                const attention::Saved& saved, const ConstTensorView& d_out,
                const attention::Gradients& gradients) override {
    plan_->backward(inputs, outputs, saved, d_out, gradients);
    for (const attention::TensorView& view : {gradients.dq, gradients.dk, gradients.dv}) {
      take_down(view);
    }
  }

 private:
  void take_down(const ConstTensorView& view) {
    if (!log_.observed) return;
    AttentionBits sum = 0;
    for (std::int64_t b = 0; b < view.batch; ++b) {
      for (std::int64_t t = 0; t < view.tokens; ++t) {
        const std::uint64_t token = random_bits(log_.first_sample + b, places_[t]);
        for (std::int64_t h = 0; h < view.heads; ++h) {
          const std::uint64_t head = random_bits(token, log_.tensor_rank * view.heads + h);
          for (std::int64_t d = 0; d < view.head_dim; ++d) {
            sum += random_bits(head + d, bits_of(view, view.offset(b, t, h, d)));
          }
        }
      }
    }
    log_.bits.push_back(sum);
  }

  std::unique_ptr<attention::Plan> plan_;
  std::vector<std::int64_t> places_;  // [token]
  ObservedSchedule::Log& log_;
};

}  // namespace

void ObservedSchedule::observe(bool observed, std::int64_t first_sample) {
  log_.observed = observed;
  log_.first_sample = first_sample;
  log_.bits.clear();
}

std::vector<AttentionBits> ObservedSchedule::bits(const comm::Communicator& world) const {
  std::vector<AttentionBits> sums;
  for (const AttentionBits own : log_.bits) {
    AttentionBits sum = 0;
    for (const AttentionBits share : comm::all_gather_values(world, own)) sum += share;
    sums.push_back(sum);
  }
  return sums;
}

std::unique_ptr<attention::Plan> ObservedSchedule::plan(const attention::Problem& problem) {
  return std::make_unique<ObservedPlan>(schedule_.plan(problem), schedule_.shard(problem.sequence),
                                        log_);
}

}  // namespace ringspan::bench
