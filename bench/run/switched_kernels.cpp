// SPDX-License-Identifier: Apache-2.0
#include "bench/run/switched_kernels.hpp"

#include <functional>
#include <utility>

#include "attention/score_kernels.hpp"

namespace ringspan::bench {
namespace {

using attention::BackwardBlock;
using attention::ConstTensorView;
using attention::ForwardBlock;
using attention::Kernels;
using attention::Partial;
using attention::ScoreKernels;
using attention::Shape;
using attention::TensorView;

/// Calls a kernel, and sees to the rest.
using Timed = std::function<void(std::string_view kernel, const std::function<void(Kernels&)>&)>;

class SwitchedScores final : public ScoreKernels {
 public:
  SwitchedScores(ScoreKernels* full, Timed timed) : full_(full), timed_(std::move(timed)) {}

  void prepare(const Shape& shape) override { full_->prepare(shape); }
  void scores(const ForwardBlock& block, const TensorView& scores) override {
    timed_("scores", [&](Kernels& kernels) { kernels.scores()->scores(block, scores); });
  }
  void max_rows(const ConstTensorView& scores, const Partial& partial) override {
    timed_("score_maxima", [&](Kernels& kernels) { kernels.scores()->max_rows(scores, partial); });
  }
  void weigh(const ConstTensorView& scores, const ForwardBlock& block,
             const Partial& partial) override {
    timed_("weigh", [&](Kernels& kernels) { kernels.scores()->weigh(scores, block, partial); });
  }
  void backward_values(const ConstTensorView& scores, const BackwardBlock& block,
                       const TensorView& dv, const TensorView& d_scores) override {
    timed_("backward_values", [&](Kernels& kernels) {
      kernels.scores()->backward_values(scores, block, dv, d_scores);
    });
  }
  void backward_keys(const ConstTensorView& d_scores, const BackwardBlock& block,
                     const TensorView& dq, const TensorView& dk) override {
    timed_("backward_keys",
           [&](Kernels& kernels) { kernels.scores()->backward_keys(d_scores, block, dq, dk); });
  }

 private:
  ScoreKernels* full_;
  Timed timed_;
};

class SwitchedKernels final : public Kernels {
 public:
  SwitchedKernels(std::unique_ptr<Kernels> full, std::unique_ptr<Kernels> null,
                  comm::Device& device, const RunMode& mode, StepClock& clock, KernelWatch watch)
      : full_(std::move(full)),
        null_(std::move(null)),
        device_(device),
        mode_(mode),
        clock_(clock),
        watch_(std::move(watch)) {}

  void prepare(const Shape& shape) override {
    full_->prepare(shape);
    null_->prepare(shape);
  }
  std::int64_t workspace_bytes() const override { return full_->workspace_bytes(); }
  bool rounds_weights(const Shape& shape) const override { return full_->rounds_weights(shape); }

  void forward(const ForwardBlock& block, const Partial& partial) override {
    timed("attention_forward", [&](Kernels& kernels) { kernels.forward(block, partial); });
  }
  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv) override {
    timed("attention_backward", [&](Kernels& kernels) { kernels.backward(block, dq, dk, dv); });
  }
  void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
             const ConstTensorView* sinks, const TensorView& delta,
             const TensorView* d_sinks) override {
    timed("delta",
          [&](Kernels& kernels) { kernels.delta(out, d_out, lse, sinks, delta, d_sinks); });
  }
  void merge(const Partial& into, const Partial& from) override {
    timed("merge", [&](Kernels& kernels) { kernels.merge(into, from); });
  }
  void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
                const TensorView& lse) override {
    timed("finalize", [&](Kernels& kernels) { kernels.finalize(partial, sinks, out, lse); });
  }
  void copy(const ConstTensorView& from, const TensorView& to) override {
    timed("copy", [&](Kernels& kernels) { kernels.copy(from, to); });
  }
  void accumulate(const ConstTensorView& from, const TensorView& to) override {
    timed("accumulate", [&](Kernels& kernels) { kernels.accumulate(from, to); });
  }
  void fill(const TensorView& to, double value) override {
    timed("fill", [&](Kernels& kernels) { kernels.fill(to, value); });
  }

  ScoreKernels* scores() override { return full_->scores() ? &scores_ : nullptr; }

 private:
  template <typename Call>
  void timed(std::string_view kernel, const Call& call) {
    const double start = device_.now(), before = kernel_clock();
    call(mode_.kernels ? *full_ : *null_);
    clock_.computed(kernel_clock() - before);
    if (watch_) watch_(kernel, start, device_.now());
  }

  /// In virtual time the host only queues kernels, each of which says how long it will take.
  double kernel_clock() const {
    return device_.cluster() ? device_.queued_seconds() : device_.now() - device_.poll_seconds();
  }

  std::unique_ptr<Kernels> full_, null_;
  comm::Device& device_;
  const RunMode& mode_;
  StepClock& clock_;
  const KernelWatch watch_;
  SwitchedScores scores_{
      full_->scores(), [this](std::string_view kernel, const auto& call) { timed(kernel, call); }};
};

}  // namespace

std::unique_ptr<Kernels> make_switched_kernels(std::unique_ptr<Kernels> full,
                                               std::unique_ptr<Kernels> null, comm::Device& device,
                                               const RunMode& mode, StepClock& clock,
                                               KernelWatch watch) {
  return std::make_unique<SwitchedKernels>(std::move(full), std::move(null), device, mode, clock,
                                           std::move(watch));
}

}  // namespace ringspan::bench
