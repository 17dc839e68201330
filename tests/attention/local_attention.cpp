// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/local_attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "comm/devices/cuda/device.hpp"
#include "comm/devices/cuda/reachable_memory.hpp"
#include "comm/devices/host.hpp"

namespace ringspan::attention {
namespace {

Tensor zeros(comm::Device& device, Kernels& kernels, DType dtype, const ConstTensorView& like) {
  Tensor tensor(device, dtype, like.batch, like.tokens, like.heads, like.head_dim);
  kernels.fill(tensor, 0);
  return tensor;
}

class Computation {
 public:
  Computation(std::string_view family, const Problem& problem, const OracleInputs& inputs,
              const KeyBlocks& blocks, const Store& store)
      : device_(device_for(family)),
        kernels_(make_kernels(family, *device_)),
        problem_(problem),
        blocks_(blocks),
        sum_dtype_(accumulator(problem.shape.dtype)),
        q_(store(*device_, inputs.q, problem.shape.dtype)),
        d_out_(store(*device_, inputs.d_out, problem.shape.dtype)),
        out_(row_tensor(problem.shape.value_dim, problem.shape.dtype)),
        lse_(row_tensor(1, sum_dtype_)) {
    kernels_->prepare(problem.shape);
    for (const Shard& shard : blocks.shards) {
      const auto tokens = positions(shard);
      k_.push_back(store(*device_, take_tokens(inputs.k, tokens), problem.shape.dtype));
      v_.push_back(store(*device_, take_tokens(inputs.v, tokens), problem.shape.dtype));
    }
    if (!problem.sinks) return;
    Array sinks(1, 1, problem.shape.heads, 1);
    sinks.values = inputs.sinks;
    sinks_tensor_ = make_tensor(*device_, sinks, DType::f32);
    sinks_ = sinks_tensor_;
  }

  LocalResults operator()() {
    forward();
    LocalResults results = backward();
    results.out = read(out_);
    results.lse = read(lse_);
    results.library_tiles = kernels_->library_tiles();
    results.rounded_weights = kernels_->rounds_weights(problem_.shape);
    return results;
  }

 private:
  Tensor row_tensor(std::int64_t dim, DType dtype) {
    return Tensor(*device_, dtype, problem_.shape.batch, problem_.sequence.length,
                  problem_.shape.heads, dim);
  }

  Logits logits() const {
    const double head_dim = static_cast<double>(problem_.shape.head_dim);
    return {problem_.softmax_scale.value_or(1 / std::sqrt(head_dim)), problem_.softcap};
  }

  const ConstTensorView* sinks() const { return problem_.sinks ? &sinks_ : nullptr; }

  void forward() {
    OwnedPartial partial(*device_, *kernels_, problem_.shape, problem_.sequence.length);
    for (std::size_t n = 0; n < k_.size(); ++n) {
      kernels_->forward({q_.view, k_[n].view, v_[n].view, blocks_.tiles[n], logits()},
                        partial.view);
    }
    kernels_->finalize(partial.view, sinks(), out_, lse_);
  }

  LocalResults backward() {
    LocalResults results;
    const Tensor delta = row_tensor(1, sum_dtype_);
    Tensor d_sinks;
    if (problem_.sinks) {
      d_sinks = zeros(*device_, *kernels_, DType::f32, sinks_);
      const TensorView d_sinks_view = d_sinks;
      kernels_->delta(out_, d_out_.view, lse_, sinks(), delta, &d_sinks_view);
      results.d_sinks = read(d_sinks);
    } else {
      kernels_->delta(out_, d_out_.view, lse_, nullptr, delta, nullptr);
    }

    const Shape& shape = problem_.shape;
    const std::int64_t tokens = problem_.sequence.length;
    results.dk = Array(shape.batch, tokens, shape.kv_heads, shape.head_dim);
    results.dv = Array(shape.batch, tokens, shape.kv_heads, shape.value_dim);
    const Tensor dq = zeros(*device_, *kernels_, sum_dtype_, q_.view);
    for (std::size_t n = 0; n < k_.size(); ++n) {
      const Tensor dk = zeros(*device_, *kernels_, sum_dtype_, k_[n].view);
      const Tensor dv = zeros(*device_, *kernels_, sum_dtype_, v_[n].view);
      kernels_->backward(
          {q_.view, k_[n].view, v_[n].view, blocks_.tiles[n], logits(), lse_, delta, d_out_.view},
          dq, dk, dv);
      put_tokens(read(dk), positions(blocks_.shards[n]), results.dk);
      put_tokens(read(dv), positions(blocks_.shards[n]), results.dv);
    }
    results.dq = read(dq);
    return results;
  }

  std::unique_ptr<comm::Device> device_;
  std::unique_ptr<Kernels> kernels_;
  const Problem& problem_;
  const KeyBlocks& blocks_;
  const DType sum_dtype_;
  Stored q_, d_out_;
  std::vector<Stored> k_, v_;  // [key block]
  Tensor sinks_tensor_;
  ConstTensorView sinks_;
  Tensor out_, lse_;
};

}  // namespace

std::vector<std::string> computing_families() {
  if (const char* const chosen = std::getenv("RINGSPAN_TEST_KERNELS")) return {chosen};
  std::vector<std::string> names;
  for (const KernelFamily& family : kernel_families()) {
    const bool computes_here = family.name != "null" && family.name != "reproducible";
    if (computes_here && family.name != "cuda" && family.name != "cudnn")
      names.emplace_back(family.name);
  }
  return names;
}

std::unique_ptr<comm::Device> device_for(std::string_view family) {
  if (family != "cuda" && family != "cudnn") return comm::make_host_device(true);
  using namespace comm::cuda;
  const auto gpu = std::make_shared<Gpu>(load_cuda(), 0);
  return std::make_unique<CudaDevice>(
      gpu, DeviceOptions{.allocator = reachable_memory(gpu), .poison = true, .blocking = true});
}

Stored store_packed(comm::Device& device, const Array& array, DType dtype) {
  const Tensor tensor = make_tensor(device, array, dtype);
  return {tensor.buffer(), tensor};
}

KeyBlocks key_blocks(const Problem& problem, std::vector<Shard> shards) {
  const Shard queries = {{0, 1, problem.sequence.length}};
  KeyBlocks blocks{std::move(shards), {}};
  for (const Shard& keys : blocks.shards) {
    blocks.tiles.push_back(visible_tiles(queries, keys, problem.sequence, problem.mask));
  }
  return blocks;
}

KeyBlocks one_key_block(const Problem& problem) {
  return key_blocks(problem, {{{0, 1, problem.sequence.length}}});
}

LocalResults attend(std::string_view family, const Problem& problem, const OracleInputs& inputs,
                    const KeyBlocks& blocks, const Store& store) {
  return Computation(family, problem, inputs, blocks, store)();
}

void expect_close(const LocalResults& actual, const OracleResults& expected,
                  const Problem& problem) {
  const DType dtype = problem.shape.dtype, sums = accumulator(dtype);
  const double weighted = actual.rounded_weights ? weight_factor(dtype) : Bound{}.factor;
  const double gradient = weighted == Bound{}.factor ? kGradientFactor : weighted;
  EXPECT_TRUE(close("out", actual.out, expected.out, expected.out_unit, {weighted, dtype}));
  EXPECT_TRUE(close("lse", actual.lse, expected.lse, expected.lse_unit, {.stored = sums}));
  EXPECT_TRUE(close("dv", actual.dv, expected.dv, expected.dv_unit, {weighted, sums}));
  EXPECT_TRUE(close("dq", actual.dq, expected.dq, expected.dq_unit, {gradient, sums}));
  EXPECT_TRUE(close("dk", actual.dk, expected.dk, expected.dk_unit, {gradient, sums}));
  if (problem.sinks) {
    EXPECT_TRUE(
        close("d_sinks", actual.d_sinks, expected.d_sinks, expected.d_sinks_unit, {gradient}));
  }
}

void expect_same(const LocalResults& actual, const LocalResults& expected) {
  EXPECT_TRUE(same_bits("out", actual.out, expected.out));
  EXPECT_TRUE(same_bits("lse", actual.lse, expected.lse));
  EXPECT_TRUE(same_bits("dq", actual.dq, expected.dq));
  EXPECT_TRUE(same_bits("dk", actual.dk, expected.dk));
  EXPECT_TRUE(same_bits("dv", actual.dv, expected.dv));
  EXPECT_TRUE(same_bits("d_sinks", actual.d_sinks, expected.d_sinks));
}

void expect_bounded(const Array& dq, const Array& dk, const Array& dv, const Array& d_sinks,
                    const OracleInputs& inputs) {
  constexpr double kRounding = 1.01;
  for (const Array* gradient : {&dq, &dk, &dv, &d_sinks}) {
    for (const double value : gradient->values) ASSERT_TRUE(std::isfinite(value)) << value;
  }
  const Array& d_out = inputs.d_out;
  const std::int64_t group = d_out.heads / dv.heads;
  double largest_v = 0;
  for (const double v : inputs.v.values) largest_v = std::max(largest_v, std::abs(v));
  for (std::int64_t b = 0; b < dv.batch; ++b) {
    for (std::int64_t h = 0; h < dv.heads * dv.dim; ++h) {
      double most = 0;  // every query of the group, with a weight of 1
      for (std::int64_t i = 0; i < d_out.tokens * group; ++i) {
        const std::int64_t head = h / dv.dim * group + i % group;
        most += std::abs(d_out.row(b, i / group, head)[h % dv.dim]);
      }
      for (std::int64_t j = 0; j < dv.tokens; ++j) {
        ASSERT_LE(std::abs(dv.row(b, j, h / dv.dim)[h % dv.dim]), most * kRounding);
      }
    }
  }
  double most = 0;  // of the delta of all rows
  for (const double value : d_out.values) most += std::abs(value) * largest_v;
  for (const double value : d_sinks.values) ASSERT_LE(std::abs(value), most * kRounding);
}

OwnedPartial::OwnedPartial(comm::Device& device, Kernels& kernels, const Shape& shape,
                           std::int64_t tokens)
    : out(device, accumulator(shape.dtype), shape.batch, tokens, shape.heads, shape.value_dim),
      max(device, accumulator(shape.dtype), shape.batch, tokens, shape.heads, 1),
      sum(device, accumulator(shape.dtype), shape.batch, tokens, shape.heads, 1),
      view{out, max, sum} {
  kernels.fill(out, 0);
  kernels.fill(max, -HUGE_VAL);
  kernels.fill(sum, 0);
}

}  // namespace ringspan::attention
