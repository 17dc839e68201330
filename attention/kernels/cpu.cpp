// SPDX-License-Identifier: Apache-2.0
// Attention on one CPU core near the peak of its fused multiply-adds, in fp32 whatever the inputs.
//
// Queries lie in vector lanes, so that everything between the matrix products is vertical, and one
// micro-kernel with its sums in registers serves all of these. The logits of a panel of queries
// never leave the nearest caches. cpu_walk says who meets whom, cpu_forward and cpu_backward pack,
// cpu_panel computes, once for every instruction set.
//
// Forward / backward as a share of the peak: causal, 4,096 tokens, 4 heads of 128, AVX-512, GCC 12.
//   8 x 1 vectors of sums, one panel at a time               0.31 / 0.29
//   8 x 3: one broadcast serves three multiply-adds          0.54 / 0.53
//   blocks of panels share packed keys, sized for the cache  0.75 / 0.72
//   backward takes 128 keys at a time instead of 64          0.75 / 0.74
#include <algorithm>
#include <new>

#include "attention/kernels/cpu_backward.hpp"
#include "attention/kernels/cpu_forward.hpp"
#include "attention/kernels/cpu_rows.hpp"
#include "attention/kernels/families.hpp"
#include "attention/kernels/host_movement.hpp"
#include "attention/kernels/host_scores.hpp"
#include "comm/error.hpp"
#include "hwy/aligned_allocator.h"

namespace ringspan::attention {
namespace {

class CpuKernels final : public Kernels {
 public:
  explicit CpuKernels(comm::Device& device) : device_(device) {}

  void prepare(const Shape& shape) override {
    RINGSPAN_REQUIRE(shape.dtype != DType::f64,
                     "the cpu kernels compute in fp32 and refuse fp64 tensors; use the reference "
                     "kernels");
    require_plain_sums("cpu", shape);
    const std::int64_t floats = required(shape.head_dim, shape.value_dim);
    if (floats <= floats_) return;
    workspace_ = hwy::AllocateAligned<float>(static_cast<std::size_t>(floats));
    floats_ = workspace_ ? floats : 0;
    if (!workspace_) throw std::bad_alloc();
  }

  std::int64_t workspace_bytes() const override {
    return floats_ * static_cast<std::int64_t>(sizeof(float)) + scores_.workspace_bytes();
  }

  void forward(const ForwardBlock& block, const Partial& partial) override {
    require_prepared(block.k, block.v);
    cpu::forward(instructions_, workspace_.get(), device_, block, partial);
  }

  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv) override {
    require_prepared(block.k, block.v);
    cpu::backward(instructions_, workspace_.get(), device_, block, dq, dk, dv);
  }

  void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
             const ConstTensorView* sinks, const TensorView& delta,
             const TensorView* d_sinks) override {
    cpu::delta(out, d_out, lse, sinks, delta, d_sinks);
  }
  void merge(const Partial& into, const Partial& from) override { cpu::merge(into, from); }
  void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
                const TensorView& lse) override {
    cpu::finalize(partial, sinks, out, lse);
  }

  void copy(const ConstTensorView& from, const TensorView& to) override { copy_on_host(from, to); }
  void accumulate(const ConstTensorView& from, const TensorView& to) override {
    accumulate_on_host(from, to);
  }
  void fill(const TensorView& to, double value) override { fill_on_host(to, value); }

  ScoreKernels* scores() override { return &scores_; }

 private:
  std::int64_t required(std::int64_t head_dim, std::int64_t value_dim) const {
    return std::max(cpu::forward_workspace(instructions_, head_dim, value_dim),
                    cpu::backward_workspace(instructions_, head_dim, value_dim));
  }

  void require_prepared(const ConstTensorView& k, const ConstTensorView& v) const {
    RINGSPAN_REQUIRE(required(k.head_dim, v.head_dim) <= floats_, "head_dim ", k.head_dim,
                     " with value_dim ", v.head_dim,
                     " needs more workspace than was reserved; call prepare() with this shape");
  }

  comm::Device& device_;
  const cpu::InstructionSet& instructions_ = cpu::instruction_set();
  hwy::AlignedFreeUniquePtr<float[]> workspace_;
  std::int64_t floats_ = 0;
  HostScores<float> scores_{device_};
};

}  // namespace

std::unique_ptr<Kernels> make_cpu_kernels(comm::Device& device) {
  return std::make_unique<CpuKernels>(device);
}

}  // namespace ringspan::attention
