// SPDX-License-Identifier: Apache-2.0
// cuDNN's attention, forward, for the tiles that it can express; all else is done by the kernels of
// our own, the backward pass too: cuDNN's takes the output of whole rows, where a schedule passes
// their delta.
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "attention/kernels/cudnn/forward_plan.hpp"
#include "attention/kernels/families.hpp"
#include "comm/devices/cuda/device.hpp"
#include "comm/devices/cuda/kernel_span.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

using cudnn::ForwardPlan;
using cudnn::ForwardShape;

constexpr std::size_t kMostPlans = 64;  // each takes seconds to make

/// The rows of a tile, of a tensor with all of them.
template <typename Void>
BasicTensorView<Void> rows_of(BasicTensorView<Void> view, const Rows& rows) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  view.data =
      static_cast<Byte*>(view.data) + rows.first * view.token_stride * element_bytes(view.dtype);
  view.tokens = rows.count;
  view.token_stride *= rows.step;
  return view;
}

/// cuDNN loads 16 bytes at once.
bool aligned(const ConstTensorView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.head_dim % 8 == 0 &&
         view.batch_stride % 8 == 0 && view.token_stride % 8 == 0 && view.head_stride % 8 == 0;
}

ForwardShape::Strides strides(const ConstTensorView& view) {
  return {view.batch_stride, view.token_stride, view.head_stride};
}

/// Device memory that grows, in the order of the compute stream.
class Scratch {
 public:
  explicit Scratch(comm::cuda::CudaDevice& device) : device_(device) {}

  std::byte* take(std::int64_t bytes) {
    if (bytes > buffer_.bytes()) buffer_ = device_.allocate_workspace(bytes);
    return buffer_.data();
  }
  std::int64_t bytes() const { return buffer_.bytes(); }

 private:
  comm::cuda::CudaDevice& device_;
  comm::Buffer buffer_;
};

class CudnnKernels final : public Kernels {
 public:
  explicit CudnnKernels(comm::cuda::CudaDevice& device)
      : device_(device),
        own_(make_kernels("cuda", device)),
        handle_(cudnn::load_cudnn(), device.compute().handle()),
        properties_(cudnn::describe_device(handle_.api(), handle_.pointer())),
        halves_(device),
        floats_(device),
        ones_(device),
        workspace_(device) {}

  void prepare(const Shape& shape) override {
    own_->prepare(shape);
    RINGSPAN_REQUIRE(shape.dtype == DType::bf16 || shape.dtype == DType::f16,
                     "kernel 'cudnn': attention of ", name(shape.dtype),
                     "; cuDNN has bf16 and fp16, kernel 'cuda' all");
  }
  std::int64_t workspace_bytes() const override {
    return own_->workspace_bytes() + halves_.bytes() + floats_.bytes() + ones_.bytes() +
           workspace_.bytes();
  }

  std::int64_t library_tiles() const override { return library_tiles_; }
  bool rounds_weights(const Shape& shape) const override { return own_->rounds_weights(shape); }

  void forward(const ForwardBlock& block, const Partial& partial) override {
    for (const Tile& tile : block.tiles) {
      if (const ForwardPlan* plan = plan_for(block, tile)) {
        fold(*plan, block, tile, partial);
        ++library_tiles_;
      } else {
        ForwardBlock alone = block;
        alone.tiles = {&tile, 1};
        own_->forward(alone, partial);
      }
    }
  }

  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv) override {
    own_->backward(block, dq, dk, dv);
  }
  void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
             const ConstTensorView* sinks, const TensorView& delta,
             const TensorView* d_sinks) override {
    own_->delta(out, d_out, lse, sinks, delta, d_sinks);
  }
  void merge(const Partial& into, const Partial& from) override { own_->merge(into, from); }
  void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
                const TensorView& lse) override {
    own_->finalize(partial, sinks, out, lse);
  }
  void copy(const ConstTensorView& from, const TensorView& to) override { own_->copy(from, to); }
  void accumulate(const ConstTensorView& from, const TensorView& to) override {
    own_->accumulate(from, to);
  }
  void fill(const TensorView& to, double value) override { own_->fill(to, value); }

 private:
  static bool lower(const Tile& tile) { return tile.lo > 1 - tile.queries.count; }
  static bool upper(const Tile& tile) { return tile.hi < tile.keys.count - 1; }

  /// Null where cuDNN cannot do it.
  const ForwardPlan* plan_for(const ForwardBlock& block, const Tile& tile) {
    const ConstTensorView q = rows_of(block.q, tile.queries), k = rows_of(block.k, tile.keys),
                          v = rows_of(block.v, tile.keys);
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    const bool narrow = (!lower(tile) || (tile.lo > -most && tile.lo < most)) &&
                        (!upper(tile) || (tile.hi > -most && tile.hi < most));
    if (block.logits.softcap || !narrow || !aligned(q) || !aligned(k) || !aligned(v))
      return nullptr;
    const ForwardShape shape{q.dtype,    q.batch,     q.tokens,   k.tokens,   q.heads,
                             k.heads,    q.head_dim,  v.head_dim, strides(q), strides(k),
                             strides(v), lower(tile), upper(tile)};
    auto found = plans_.find(shape);
    if (found == plans_.end()) {
      if (plans_.size() == kMostPlans) {
        warn_of_too_many();
        return nullptr;
      }
      found = plans_.emplace(shape, make_plan(shape)).first;
    }
    return found->second ? &*found->second : nullptr;
  }

  /// Empty, and said so once, where cuDNN cannot do it. The others wait as for a slow rank.
  std::optional<ForwardPlan> make_plan(const ForwardShape& shape) {
    device_.poll();
    std::optional<ForwardPlan> plan;
    try {
      const comm::cuda::Current current(device_.compute().gpu());
      plan.emplace(ForwardPlan::make(handle_, properties_, shape));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_available) throw;
      std::cerr << concat("ringspan: kernel 'cudnn' leaves tiles of ", shape.queries, " x ",
                          shape.keys, " tokens, ", shape.head_dim, " and ", shape.value_dim,
                          " elements, to kernel 'cuda': ", error.what(), '\n');
    }
    device_.poll();
    return plan;
  }

  void warn_of_too_many() {
    if (std::exchange(warned_, true)) return;
    std::cerr << concat("ringspan: kernel 'cudnn' has compiled ", kMostPlans,
                        " shapes of tiles; it leaves all others to kernel 'cuda'\n");
  }

  /// Its result enters as (out, log2 of the sum, 1).
  void fold(const ForwardPlan& plan, const ForwardBlock& block, const Tile& tile,
            const Partial& partial) {
    const Rows& rows = tile.queries;
    const std::int64_t batch = block.q.batch, heads = block.q.heads, dim = block.v.head_dim,
                       values = batch * rows.count * heads;
    const auto packed = [&](std::byte* data, DType dtype, std::int64_t width) {
      return TensorView::packed(data, dtype, batch, rows.count, heads, width);
    };
    const TensorView halves =
        packed(halves_.take(values * dim * element_bytes(block.q.dtype)), block.q.dtype, dim);
    std::byte* const floats = floats_.take(values * (dim + 1) * std::int64_t{sizeof(float)});
    const TensorView out = packed(floats, DType::f32, dim),
                     statistics = packed(floats + out.bytes(), DType::f32, 1);
    const bool more_ones = ones_.bytes() < values * std::int64_t{sizeof(float)};
    const TensorView ones = packed(ones_.take(values * std::int64_t{sizeof(float)}), DType::f32, 1);
    if (more_ones) own_->fill(ones, 1);
    {
      const comm::cuda::KernelSpan span(device_, "attention_forward");
      const comm::cuda::Current current(device_.compute().gpu());
      plan.queue(handle_, {.q = rows_of(block.q, tile.queries).data,
                           .k = rows_of(block.k, tile.keys).data,
                           .v = rows_of(block.v, tile.keys).data,
                           .out = halves.data,
                           .statistics = statistics.data,
                           .workspace = workspace_.take(plan.workspace_bytes()),
                           .scale = static_cast<float>(block.logits.scale),
                           .lo = lower(tile) ? static_cast<std::int32_t>(tile.lo) : 0,
                           .hi = upper(tile) ? static_cast<std::int32_t>(tile.hi) : 0});
      device_.queued();
    }
    own_->copy(halves, out);
    own_->merge(
        {rows_of(partial.out, rows), rows_of(partial.max, rows), rows_of(partial.sum, rows)},
        {out, statistics, ones});
  }

  comm::cuda::CudaDevice& device_;
  const std::unique_ptr<Kernels> own_;
  const cudnn::Handle handle_;
  const cudnn::Descriptor properties_;
  std::map<ForwardShape, std::optional<ForwardPlan>> plans_;
  Scratch halves_, floats_, ones_, workspace_;
  std::int64_t library_tiles_ = 0;
  bool warned_ = false;
};

}  // namespace

std::unique_ptr<Kernels> make_cudnn_kernels(comm::Device& device) {
  auto* const gpu = dynamic_cast<comm::cuda::CudaDevice*>(&device);
  RINGSPAN_REQUIRE(gpu, "kernel 'cudnn' runs on a GPU, which device '", device.name(),
                   "' is not; transports for GPUs are nccl and cuda_ipc");
  const comm::cuda::Current current(gpu->compute().gpu());
  return std::make_unique<CudnnKernels>(*gpu);
}

}  // namespace ringspan::attention
