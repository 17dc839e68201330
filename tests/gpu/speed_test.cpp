// SPDX-License-Identifier: Apache-2.0
// What the parts of a step reach on one GPU: records figures, which scripts/gpu_check judges.
#include <cmath>
#include <string>
#include <vector>

#include "attention/closed_forms.hpp"
#include "attention/kernels.hpp"
#include "attention/kernels/cudnn/tile_plan.hpp"
#include "comm/devices/cuda/module.hpp"
#include "gtest/gtest.h"
#include "tests/gpu/gpu.hpp"
#include "tests/gpu/matrix_peak.hpp"

namespace ringspan::attention {
namespace {

constexpr int kMultiprocessorCount = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

class GpuSpeedTest : public testing::Test {
 protected:
  /// A tensor of the device with values.
  TensorView filled(DType dtype, std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                    std::int64_t dim) {
    const std::int64_t bytes = batch * tokens * heads * dim * element_bytes(dtype);
    kept_.push_back(gpu::filled(device_, bytes, dtype));
    return TensorView::packed(kept_.back().data(), dtype, batch, tokens, heads, dim);
  }

  const std::shared_ptr<const comm::cuda::Gpu> gpu_ = gpu::first_gpu();
  const bool emulated_ = gpu::emulated(*gpu_);
  comm::cuda::CudaDevice device_{gpu_, comm::cuda::DeviceOptions{}};

 private:
  std::vector<comm::Buffer> kept_;
};

TEST_F(GpuSpeedTest, MatrixPeak) {
  if (emulated_) GTEST_SKIP() << "the emulated driver has no tensor cores";
  const std::string reason = gpu::missing("cuda");
  if (!reason.empty()) GTEST_SKIP() << reason;
  const comm::cuda::Module module(gpu_, gpu::matrix_peak_image());
  int processors = 0;
  gpu_->check(gpu_->api().device_attribute(&processors, kMultiprocessorCount, gpu_->ordinal()),
              "cuDeviceGetAttribute");
  const std::int64_t threads = std::int64_t{processors} * 8 * comm::cuda::Module::kBlock;
  const comm::Buffer sums = device_.allocate(threads * std::int64_t{sizeof(float)});
  const gpu::MatrixPeak task{4096, reinterpret_cast<float*>(sums.data())};
  const auto function = module.find("ringspan_matrix_peak");
  const double seconds = gpu::seconds_of(device_, [&] {
    module.launch(device_.compute(), function, comm::cuda::Module::grid_of(threads), task);
  });
  const double flops = gpu::MatrixPeak::kFlopsPerStep * static_cast<double>(task.steps) *
                       static_cast<double>(threads) / 32;
  gpu::record("mma_sync_tflops", flops / seconds * 1e-12);
}

TEST_F(GpuSpeedTest, MovementAgainstCopies) {
  const std::string reason = gpu::missing("cuda");
  if (!reason.empty()) GTEST_SKIP() << reason;
  const auto kernels = make_kernels("cuda", device_);
  const std::int64_t tokens = emulated_ ? 16 : 32768, heads = 32, dim = 128;
  const DType bf16 = DType::bf16, f32 = DType::f32;
  const auto rate = [&](double bytes, const std::function<void()>& call) {
    return bytes / gpu::seconds_of(device_, call) * 1e-9;
  };
  const TensorView a = filled(f32, 1, tokens, heads, dim), b = filled(f32, 1, tokens, heads, dim);
  const auto bytes = static_cast<double>(a.bytes());
  const comm::Buffer from(static_cast<std::byte*>(a.data), a.bytes(), {}),
      to(static_cast<std::byte*>(b.data), b.bytes(), {});
  // Bytes read and written, of each.
  gpu::record("copy_gb_per_s", rate(2 * bytes, [&] { device_.copy(whole(to), whole(from)); }));
  gpu::record("accumulate_gb_per_s", rate(3 * bytes, [&] { kernels->accumulate(a, b); }));

  const TensorView halves = filled(bf16, 1, tokens, heads, dim);
  TensorView by_heads = filled(bf16, 1, tokens, heads, dim);  // [heads][tokens][dim]
  by_heads.token_stride = dim, by_heads.head_stride = tokens * dim;
  gpu::record("pack_gb_per_s", rate(bytes, [&] { kernels->copy(halves, by_heads); }));
  gpu::record("cast_gb_per_s", rate(1.5 * bytes, [&] { kernels->copy(a, halves); }));

  const auto rows = [&] { return filled(f32, 1, tokens, heads, 1); };
  const Partial into{a, rows(), rows()}, other{b, rows(), rows()};
  const double row_bytes = bytes / dim;
  gpu::record("merge_gb_per_s",
              rate(3 * bytes + 6 * row_bytes, [&] { kernels->merge(into, other); }));
}

struct Sizes {
  std::int64_t tokens, heads, kv_heads, dim;
  const char* mask;
};

constexpr Sizes kSizes[] = {{8192, 16, 16, 128, "causal"},
                            {8192, 16, 16, 128, "full"},
                            {8192, 32, 8, 128, "causal"},
                            {8192, 16, 16, 64, "causal"}};

/// What is measured: on the emulation one of them, and small.
std::vector<Sizes> sizes(bool emulated) {
  if (emulated) return {{8, 2, 1, kSizes[0].dim, kSizes[0].mask}};
  return {std::begin(kSizes), std::end(kSizes)};
}

Problem problem_of(const Sizes& s) {
  return {.shape = {1, s.heads, s.kv_heads, s.dim, s.dim, DType::bf16},
          .sequence = {s.tokens},
          .mask = parse_mask(s.mask)};
}

/// As "cuda_forward_causal_128_16_16_tflops".
std::string figure_of(const std::string& kernels, const char* pass, const Sizes& s) {
  return ::ringspan::concat(kernels, '_', pass, '_', s.mask, '_', s.dim, '_', s.heads, '_',
                            s.kv_heads, "_tflops");
}

class GpuAttentionSpeedTest : public GpuSpeedTest, public testing::WithParamInterface<std::string> {
 protected:
  void measure(Kernels& kernels, const Sizes& s) {
    const std::int64_t tokens = s.tokens;
    const Problem problem = problem_of(s);
    kernels.prepare(problem.shape);
    const Shard all = {{0, 1, tokens}};
    const auto tiles = visible_tiles(all, all, problem.sequence, problem.mask);
    const Logits logits{1 / std::sqrt(static_cast<double>(s.dim)), {}};
    const auto queries = [&](DType dtype, std::int64_t dim) {
      return filled(dtype, 1, tokens, s.heads, dim);
    };
    const auto keys = [&](DType dtype) { return filled(dtype, 1, tokens, s.kv_heads, s.dim); };
    const TensorView q = queries(DType::bf16, s.dim), d_out = queries(DType::bf16, s.dim),
                     out = queries(DType::bf16, s.dim), lse = queries(DType::f32, 1),
                     delta = queries(DType::f32, 1), k = keys(DType::bf16), v = keys(DType::bf16);
    const Partial partial{queries(DType::f32, s.dim), queries(DType::f32, 1),
                          queries(DType::f32, 1)};
    const TensorView dq = queries(DType::f32, s.dim), dk = keys(DType::f32), dv = keys(DType::f32);

    kernels.fill(partial.max, -HUGE_VAL), kernels.fill(partial.sum, 0),
        kernels.fill(partial.out, 0);
    const auto tflops = [&](double flops, const std::function<void()>& call) {
      return flops / gpu::seconds_of(device_, call) * 1e-12;
    };
    const ForwardBlock forward{q, k, v, tiles, logits};
    gpu::record(figure_of(GetParam(), "forward", s),
                tflops(forward_flops(problem), [&] { kernels.forward(forward, partial); }));
    const std::int64_t forward_tiles = kernels.library_tiles();
    kernels.finalize(partial, nullptr, out, lse);
    kernels.delta(out, d_out, lse, nullptr, delta, nullptr);
    const BackwardBlock backward{q, k, v, tiles, logits, lse, delta, d_out};
    gpu::record(figure_of(GetParam(), "backward", s),
                tflops(backward_flops(problem), [&] { kernels.backward(backward, dq, dk, dv); }));
    if (GetParam() == "cudnn") {
      EXPECT_GT(forward_tiles, 0) << s.mask << s.dim << ": these are the times of kernel 'cuda'";
      EXPECT_GT(kernels.library_tiles(), forward_tiles) << ": so are these of backward";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Families, GpuAttentionSpeedTest, testing::Values("cuda", "cudnn"),
                         [](const auto& info) { return info.param; });

TEST_P(GpuAttentionSpeedTest, Attention) {
  const std::string reason = gpu::missing(GetParam());
  if (!reason.empty()) GTEST_SKIP() << reason;
  const auto kernels = make_kernels(GetParam(), device_);
  for (const Sizes& each : sizes(emulated_)) measure(*kernels, each);
}

/// cuDNN's graphs as they are, without what folds their results into sums: what its own interface
/// reaches.
class GpuCudnnSpeedTest : public GpuSpeedTest {
 protected:
  double tflops(const Sizes& s, cudnn::TileShape::Pass pass) {
    const comm::cuda::Current current(*gpu_);
    const cudnn::Handle handle(cudnn::load_cudnn(), device_.compute().handle());
    const bool forward = pass == cudnn::TileShape::Pass::forward, causal = s.mask[0] == 'c';
    const auto strides = [&](std::int64_t heads) {
      return cudnn::TileShape::Strides{s.tokens * heads * s.dim, heads * s.dim, s.dim};
    };
    const cudnn::TileShape shape{.pass = pass,
                                 .queries = s.tokens,
                                 .keys = s.tokens,
                                 .heads = s.heads,
                                 .kv_heads = s.kv_heads,
                                 .head_dim = s.dim,
                                 .value_dim = s.dim,
                                 .q = strides(s.heads),
                                 .k = strides(s.kv_heads),
                                 .v = strides(s.kv_heads),
                                 .d_out = forward ? cudnn::TileShape::Strides{} : strides(s.heads),
                                 .upper = causal};
    const auto plan = cudnn::TilePlan::make(
        handle, cudnn::describe_device(handle.api(), handle.pointer()), shape);
    const comm::Buffer workspace = device_.allocate_workspace(plan.workspace_bytes());
    cudnn::TileArguments arguments{.workspace = workspace.data(),
                                   .scale = 1 / std::sqrt(static_cast<float>(s.dim))};
    const auto add = [&](cudnn::Id id, DType dtype, std::int64_t heads, std::int64_t dim) {
      arguments.tensors.emplace_back(id, filled(dtype, 1, s.tokens, heads, dim).data);
    };
    for (const cudnn::Id id : {cudnn::Id::q, cudnn::Id::out}) add(id, DType::bf16, s.heads, s.dim);
    for (const cudnn::Id id : {cudnn::Id::k, cudnn::Id::v}) add(id, DType::bf16, s.kv_heads, s.dim);
    add(cudnn::Id::statistics, DType::f32, s.heads, 1);
    if (!forward) {
      for (const cudnn::Id id : {cudnn::Id::d_out, cudnn::Id::dq})
        add(id, DType::bf16, s.heads, s.dim);
      for (const cudnn::Id id : {cudnn::Id::dk, cudnn::Id::dv})
        add(id, DType::bf16, s.kv_heads, s.dim);
    }
    const Problem problem = problem_of(s);
    const double flops = forward ? forward_flops(problem) : backward_flops(problem);
    return flops / gpu::seconds_of(device_, [&] { plan.queue(handle, arguments); }) * 1e-12;
  }
};

TEST_F(GpuCudnnSpeedTest, ThroughItsOwnInterface) {
  const std::string reason = gpu::missing("cudnn");
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const Sizes& s : sizes(emulated_)) {
    using Pass = cudnn::TileShape::Pass;
    gpu::record(figure_of("cudnn_alone", "forward", s), tflops(s, Pass::forward));
    gpu::record(figure_of("cudnn_alone", "backward", s), tflops(s, Pass::backward));
  }
}

}  // namespace
}  // namespace ringspan::attention
