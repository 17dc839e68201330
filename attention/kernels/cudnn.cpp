// SPDX-License-Identifier: Apache-2.0
// cuDNN's attention for the tiles that it can express; all else is done by the kernels of our own.
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/kernels/cuda/cuda_kernels.hpp"
#include "attention/kernels/cudnn/scratch.hpp"
#include "attention/kernels/cudnn/tile_plan.hpp"
#include "attention/kernels/cudnn/tile_rows.hpp"
#include "comm/devices/cuda/kernel_span.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

using cudnn::Id;
using cudnn::rows_of;
using cudnn::strides;
using cudnn::TilePlan;
using cudnn::TileShape;

constexpr std::size_t kMostPlans = 64;  // each takes seconds to make

class CudnnKernels final : public cuda::CudaKernels {
 public:
  explicit CudnnKernels(comm::cuda::CudaDevice& device)
      : CudaKernels(device),
        device_(device),
        handle_(cudnn::load_cudnn(), device.compute().handle()),
        properties_(cudnn::describe_device(handle_.api(), handle_.pointer())),
        halves_(device),
        floats_(device),
        ones_(device),
        workspace_(device) {}

  void prepare(const Shape& shape) override {
    CudaKernels::prepare(shape);
    RINGSPAN_REQUIRE(shape.dtype == DType::bf16 || shape.dtype == DType::f16,
                     "kernel 'cudnn': attention of ", name(shape.dtype),
                     "; cuDNN has bf16 and fp16, kernel 'cuda' all");
  }
  std::int64_t workspace_bytes() const override {
    return halves_.bytes() + floats_.bytes() + ones_.bytes() + workspace_.bytes();
  }

  std::int64_t library_tiles() const override { return library_tiles_; }

  void forward(const ForwardBlock& block, const Partial& partial) override {
    for (const Tile& tile : block.tiles) {
      if (const TilePlan* plan = plan_for(block.logits, tile, shape_of(block, tile))) {
        fold(*plan, block, tile, partial);
        ++library_tiles_;
      } else {
        ForwardBlock alone = block;
        alone.tiles = {&tile, 1};
        CudaKernels::forward(alone, partial);
      }
    }
  }

  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv) override {
    for (const Tile& tile : block.tiles) {
      TileShape shape = shape_of(block, tile);
      shape.pass = TileShape::Pass::backward;
      shape.d_out = strides(rows_of(block.d_out, tile.queries));
      // cuDNN writes gradients of a tile, sums over many queries, in the dtype: fp16 overflows.
      const bool fits =
          shape.dtype == DType::bf16 && cudnn::aligned(rows_of(block.d_out, tile.queries));
      if (const TilePlan* plan = fits ? plan_for(block.logits, tile, shape) : nullptr) {
        add_gradients(*plan, block, tile, dq, dk, dv);
        ++library_tiles_;
      } else {
        BackwardBlock alone = block;
        alone.tiles = {&tile, 1};
        CudaKernels::backward(alone, dq, dk, dv);
      }
    }
  }

 private:
  static bool lower(const Tile& tile) { return tile.lo > 1 - tile.queries.count; }
  static bool upper(const Tile& tile) { return tile.hi < tile.keys.count - 1; }

  /// Of the forward pass; empty where cuDNN could not load the rows.
  template <typename Block>
  static TileShape shape_of(const Block& block, const Tile& tile) {
    const ConstTensorView q = rows_of(block.q, tile.queries), k = rows_of(block.k, tile.keys),
                          v = rows_of(block.v, tile.keys);
    if (!cudnn::aligned(q) || !cudnn::aligned(k) || !cudnn::aligned(v)) return {.batch = 0};
    return {.dtype = q.dtype,
            .batch = q.batch,
            .queries = q.tokens,
            .keys = k.tokens,
            .heads = q.heads,
            .kv_heads = k.heads,
            .head_dim = q.head_dim,
            .value_dim = v.head_dim,
            .q = strides(q),
            .k = strides(k),
            .v = strides(v),
            .lower = lower(tile),
            .upper = upper(tile)};
  }

  /// Null where cuDNN cannot do it.
  const TilePlan* plan_for(const Logits& logits, const Tile& tile, const TileShape& shape) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    const bool narrow = (!shape.lower || (tile.lo > -most && tile.lo < most)) &&
                        (!shape.upper || (tile.hi > -most && tile.hi < most));
    if (logits.softcap || !narrow || shape.batch == 0) return nullptr;
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
  std::optional<TilePlan> make_plan(const TileShape& shape) {
    device_.poll();
    std::optional<TilePlan> plan;
    try {
      const comm::cuda::Current current(device_.compute().gpu());
      plan.emplace(TilePlan::make(handle_, properties_, shape));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_available) throw;
      std::cerr << concat("ringspan: kernel 'cudnn' leaves ",
                          shape.pass == TileShape::Pass::forward ? "" : "the backward pass of ",
                          "tiles of ", shape.queries, " x ", shape.keys, " tokens, ",
                          shape.head_dim, " and ", shape.value_dim,
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
  void fold(const TilePlan& plan, const ForwardBlock& block, const Tile& tile,
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
    if (more_ones) fill(ones, 1);
    queue(plan, "attention_forward", block, tile,
          {{Id::out, halves.data}, {Id::statistics, statistics.data}});
    copy(halves, out);
    merge({rows_of(partial.out, rows), rows_of(partial.max, rows), rows_of(partial.sum, rows)},
          {out, statistics, ones});
  }

  /// cuDNN wants out, of which only its product with d_out counts; a schedule has that, as delta.
  void add_gradients(const TilePlan& plan, const BackwardBlock& block, const Tile& tile,
                     const TensorView& dq, const TensorView& dk, const TensorView& dv) {
    const ConstTensorView d_out = rows_of(block.d_out, tile.queries);
    const TensorView sums[] = {rows_of(dq, tile.queries), rows_of(dk, tile.keys),
                               rows_of(dv, tile.keys)};
    std::int64_t elements = d_out.elements();
    for (const TensorView& sum : sums) elements += sum.elements();
    std::byte* half = halves_.take(elements * element_bytes(d_out.dtype));
    const auto next = [&](const ConstTensorView& like) {
      const TensorView view =
          TensorView::packed(half, d_out.dtype, like.batch, like.tokens, like.heads, like.head_dim);
      half += view.bytes();
      return view;
    };
    const TensorView out = next(d_out), gradients[] = {next(sums[0]), next(sums[1]), next(sums[2])};
    const std::int64_t rows = d_out.batch * d_out.tokens * d_out.heads;
    const TensorView statistics =
        TensorView::packed(floats_.take(rows * std::int64_t{sizeof(float)}), DType::f32,
                           d_out.batch, d_out.tokens, d_out.heads, 1);
    movement_.project(d_out, rows_of(block.delta, tile.queries), rows_of(block.lse, tile.queries),
                      out, statistics);
    queue(plan, "attention_backward", block, tile,
          {{Id::d_out, d_out.data},
           {Id::out, out.data},
           {Id::statistics, statistics.data},
           {Id::dq, gradients[0].data},
           {Id::dk, gradients[1].data},
           {Id::dv, gradients[2].data}});
    for (int i = 0; i < 3; ++i) accumulate(gradients[i], sums[i]);
  }

  /// With what both passes have.
  template <typename Block>
  void queue(const TilePlan& plan, std::string_view name, const Block& block, const Tile& tile,
             std::vector<std::pair<Id, const void*>> tensors) {
    tensors.emplace_back(Id::q, rows_of(block.q, tile.queries).data);
    tensors.emplace_back(Id::k, rows_of(block.k, tile.keys).data);
    tensors.emplace_back(Id::v, rows_of(block.v, tile.keys).data);
    const comm::cuda::KernelSpan span(device_, name);
    const comm::cuda::Current current(device_.compute().gpu());
    plan.queue(handle_, {.tensors = std::move(tensors),
                         .workspace = workspace_.take(plan.workspace_bytes()),
                         .scale = static_cast<float>(block.logits.scale),
                         .lo = lower(tile) ? static_cast<std::int32_t>(tile.lo) : 0,
                         .hi = upper(tile) ? static_cast<std::int32_t>(tile.hi) : 0});
    device_.queued();
  }

  comm::cuda::CudaDevice& device_;
  const cudnn::Handle handle_;
  const cudnn::Descriptor properties_;
  std::map<TileShape, std::optional<TilePlan>> plans_;
  cudnn::Scratch halves_, floats_, ones_, workspace_;
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
