// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "attention/kernels.hpp"
#include "attention/kernels/cuda/movement.hpp"
#include "attention/kernels/scalar.hpp"
#include "comm/devices/host.hpp"
#include "comm/error.hpp"
#include "gtest/gtest.h"
#include "tests/attention/array.hpp"

namespace ringspan::attention {
namespace host_movement_test {

constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

/// Copy, accumulate and fill of every family of the host, the null one too: packing counts as
/// communication.
class HostMovementTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<comm::Device> device_ = comm::make_host_device(true);
  std::unique_ptr<Kernels> kernels_ = make_kernels(GetParam(), *device_);
};

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const KernelFamily& family : kernel_families())
    if (family.name != "cuda" && family.name != "cudnn") names.emplace_back(family.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, HostMovementTest, testing::ValuesIn(families()),
                         [](const auto& info) { return info.param; });

/// As [batch][heads][tokens][dim], with a gap behind every row.
TensorView heads_first(const comm::Buffer& memory, const Array& a, DType dtype) {
  TensorView view{memory.data(), dtype, a.batch, a.tokens, a.heads, a.dim};
  view.token_stride = a.dim + 3;
  view.head_stride = a.tokens * view.token_stride;
  view.batch_stride = a.heads * view.head_stride;
  return view;
}

TEST_P(HostMovementTest, CopiesAndConvertsBetweenAllDtypesAndStrides) {
  const Array values = random_array(3, 10, 4, 6, DType::f64, 1);
  for (const DType from : kDTypes) {
    const Tensor source = make_tensor(*device_, values, from);
    for (const DType to : kDTypes) {
      Array expected = read(source);
      const Tensor rounded = make_tensor(*device_, expected, to);
      expected = read(rounded);

      const Tensor packed(*device_, to, 3, 10, 4, 6);
      kernels_->copy(source, packed);
      EXPECT_TRUE(same_bits("packed", read(packed), expected));

      const comm::Buffer memory = device_->allocate(3 * 10 * 4 * 9 * element_bytes(to));
      const TensorView strided = heads_first(memory, values, to);
      kernels_->copy(source, strided);
      EXPECT_TRUE(same_bits("strided", read(strided), expected));
      const Tensor back(*device_, to, 3, 10, 4, 6);
      kernels_->copy(strided, back);
      EXPECT_TRUE(same_bits("back", read(back), expected));
      EXPECT_TRUE(std::isnan(load(memory.data(), to, 6))) << "wrote into the gap";
    }
  }
}

TEST_P(HostMovementTest, CopiesSlicesOfTokensAndHeads) {
  const Array values = random_array(2, 7, 5, 3, DType::f32, 2);
  const Tensor source = make_tensor(*device_, values, DType::f32);
  const Tensor whole(*device_, DType::f32, 2, 7, 5, 3);
  kernels_->fill(whole, 9);
  kernels_->copy(source.view().slice_tokens(2, 3).slice_heads(1, 2),
                 whole.view().slice_tokens(4, 3).slice_heads(3, 2));
  const Array moved = read(whole);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 7; ++t) {
      for (std::int64_t h = 0; h < 5; ++h) {
        for (std::int64_t d = 0; d < 3; ++d) {
          const bool inside = t >= 4 && h >= 3;
          EXPECT_EQ(moved.row(b, t, h)[d], inside ? values.row(b, t - 2, h - 2)[d] : 9);
        }
      }
    }
  }
}

TEST_P(HostMovementTest, RepeatedInputsAreCopiedOften) {
  const Tensor one = make_tensor(*device_, random_array(1, 4, 1, 5, DType::f32, 3), DType::f32);
  TensorView repeated = one;
  repeated.heads = 3;
  repeated.head_stride = 0;
  const Tensor to(*device_, DType::f32, 1, 4, 3, 5);
  kernels_->copy(repeated, to);
  for (std::int64_t h = 0; h < 3; ++h) {
    EXPECT_TRUE(same_bits("head", read(to.view().slice_heads(h, 1)), read(one)));
  }
}

TEST_P(HostMovementTest, AccumulatesInPlace) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Array a = random_array(2, 3, 4, 5, dtype, 4), b = random_array(2, 3, 4, 5, dtype, 5);
    const Tensor from = make_tensor(*device_, a, dtype);
    const comm::Buffer memory = device_->allocate(2 * 3 * 4 * 8 * element_bytes(dtype));
    const TensorView to = heads_first(memory, b, dtype);
    write(b, to);
    kernels_->accumulate(from, to);
    Array expected = b;
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      expected.values[i] = dtype == DType::f64
                               ? a.values[i] + b.values[i]
                               : static_cast<float>(a.values[i]) + static_cast<float>(b.values[i]);
    }
    EXPECT_TRUE(same_bits("sum", read(to), expected));
  }
}

TEST_P(HostMovementTest, FillsEveryDtypeAndNothingElse) {
  for (const DType dtype : kDTypes) {
    const Array like(2, 3, 4, 5);
    const comm::Buffer memory = device_->allocate(2 * 3 * 4 * 8 * element_bytes(dtype));
    const TensorView view = heads_first(memory, like, dtype);
    kernels_->fill(view, -HUGE_VAL);
    for (const double value : read(view).values) EXPECT_EQ(value, -HUGE_VAL);
    EXPECT_TRUE(std::isnan(load(memory.data(), dtype, 5)));
  }
}

TEST_P(HostMovementTest, EmptyTensorsNeedNoMemory) {
  TensorView nothing;
  nothing.batch = 2;
  nothing.heads = 3;
  nothing.head_dim = 4;
  EXPECT_NO_THROW(kernels_->copy(nothing, nothing));
  EXPECT_NO_THROW(kernels_->accumulate(nothing, nothing));
  EXPECT_NO_THROW(kernels_->fill(nothing, 0));
}

TEST_P(HostMovementTest, RefusesShapesThatDiffer) {
  const Tensor a(*device_, DType::f32, 1, 2, 3, 4), b(*device_, DType::f32, 1, 3, 2, 4);
  EXPECT_THROW(kernels_->copy(a, b), Error);
  EXPECT_THROW(kernels_->accumulate(a, b), Error);
  const Tensor half(*device_, DType::bf16, 1, 2, 3, 4);
  EXPECT_THROW(kernels_->accumulate(half, a), Error);
}

TEST(TensorViewTest, OffsetsHoldBeyond32Bits) {
  // 2^21 + 1 tokens of 16 heads of 64: the last row starts at 2^31.
  const std::int64_t tokens = (std::int64_t{1} << 21) + 1, large = std::int64_t{1} << 31;
  const auto view = TensorView::packed(nullptr, DType::bf16, 3, tokens, 16, 64);
  EXPECT_EQ(view.offset(0, tokens - 1, 0), large);
  EXPECT_EQ(view.offset(0, tokens - 1, 0, 1), large + 1);
  EXPECT_EQ(view.offset(0, tokens - 2, 15, 63), large - 1);
  EXPECT_EQ(view.offset(2, tokens - 1, 15, 63), view.elements() - 1);
  EXPECT_EQ(view.bytes(), 3 * (large + 1024) * 2);
  auto* base = reinterpret_cast<std::byte*>(64);
  auto sliced = TensorView::packed(base, DType::f32, 1, tokens, 16, 64);
  EXPECT_EQ(static_cast<std::byte*>(sliced.slice_tokens(tokens - 1, 1).data) - base, 4 * large);
}

// The kernels of GPUs count so, too.
TEST(MovementPlaceTest, CountsBeyondThirtyTwoBits) {
  using namespace cuda;
  TensorView view{nullptr, DType::f16, 3, 70'000, 40, 4'096};
  view.head_stride = 4'100, view.token_stride = 40 * 4'100;
  view.batch_stride = 70'000LL * view.token_stride;
  const std::int64_t last = view.elements() / kVector - 1;
  ASSERT_GT(last, std::int64_t{1} << 31);
  const Place at = place(view, kVector, last);
  EXPECT_EQ(at.b, 2);
  EXPECT_EQ(at.t, 69'999);
  EXPECT_EQ(at.h, 39);
  EXPECT_EQ(at.d, 4'088);
  EXPECT_EQ(offset(view, at), ((2LL * 70'000 + 69'999) * 40 + 39) * 4'100 + 4'088);
}

}  // namespace host_movement_test
}  // namespace ringspan::attention
