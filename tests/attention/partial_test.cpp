// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include "comm/devices/host.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/local_attention.hpp"

namespace ringspan::attention {
namespace {

/// Every family that computes, on partial results of one row of one head with given numbers.
class PartialTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels_->prepare(kShape); }

  OwnedPartial partial(double out0, double out1, double max, double sum) {
    OwnedPartial row(*device_, *kernels_, kShape, 1);
    Array out(1, 1, 1, 2);
    out.values = {out0, out1};
    write(out, row.out);
    kernels_->fill(row.max, max);
    kernels_->fill(row.sum, sum);
    return row;
  }

  static std::vector<double> numbers(const OwnedPartial& row) {
    const Array out = read(row.out);
    return {out.values[0], out.values[1], read(row.max).values[0], read(row.sum).values[0]};
  }

  struct Final {
    std::vector<double> out;
    double lse;
  };
  Final finalize(const OwnedPartial& row, const ConstTensorView* sinks = nullptr) {
    const Tensor out(*device_, DType::f32, 1, 1, 1, 2), lse(*device_, DType::f32, 1, 1, 1, 1);
    kernels_->finalize(row.view, sinks, out, lse);
    return {read(out).values, read(lse).values[0]};
  }

  static constexpr Shape kShape{.head_dim = 2, .value_dim = 2};
  std::unique_ptr<comm::Device> device_ = comm::make_host_device(true);
  std::unique_ptr<Kernels> kernels_ = make_kernels(GetParam(), *device_);
};

INSTANTIATE_TEST_SUITE_P(Families, PartialTest, testing::ValuesIn(computing_families()),
                         [](const auto& info) { return info.param; });

TEST_P(PartialTest, MergingWithNothingChangesNoBit) {
  const OwnedPartial row = partial(0.3, -0.0, -5.25, 1.9), same = partial(0.3, -0.0, -5.25, 1.9);
  const OwnedPartial nothing = partial(0, 0, -HUGE_VAL, 0);
  kernels_->merge(row.view, nothing.view);
  EXPECT_TRUE(same_bits("out", row.out, same.out));
  EXPECT_EQ(numbers(row), numbers(same));
  kernels_->merge(nothing.view, row.view);
  EXPECT_EQ(numbers(nothing), numbers(same));
  const OwnedPartial other = partial(0, 0, -HUGE_VAL, 0);
  kernels_->merge(other.view, partial(0, 0, -HUGE_VAL, 0).view);
  EXPECT_EQ(numbers(other), (std::vector<double>{0, 0, -HUGE_VAL, 0}));
}

TEST_P(PartialTest, MergeOfFarApartRowsIsTheLargerOne) {
  for (const double gap : {100.0, 200.0, 1e5, 1e30}) {
    const double natural = gap * std::numbers::log2e;
    const OwnedPartial low = partial(1, 2, 0, 1), high = partial(3, 4, natural, 1);
    const Final alone = finalize(high);
    kernels_->merge(low.view, high.view);
    EXPECT_EQ(finalize(low).out, (std::vector<double>{3, 4})) << gap;
    EXPECT_EQ(finalize(low).lse, alone.lse) << gap;
    EXPECT_NEAR(alone.lse, gap, gap * 0x1p-22);
    const OwnedPartial lower = partial(1, 2, 0, 1);
    kernels_->merge(high.view, lower.view);
    EXPECT_EQ(finalize(high).out, (std::vector<double>{3, 4})) << gap;
  }
}

TEST_P(PartialTest, MergeWeighsBySums) {
  // Sums 2 and 8, outputs 1 and 0: 2 / 10. Mixed units of lse would give 0.1192 or 0.2767.
  const OwnedPartial a = partial(2, 0, 0, 2);
  kernels_->merge(a.view, partial(0, 8, 0, 8).view);
  EXPECT_NEAR(finalize(a).out[0], 0.2, 1e-7);
  // The same as (out, lse * log2(e), 1), as kernels of other libraries enter.
  const OwnedPartial b = partial(1, 0, std::log(2) * std::numbers::log2e, 1);
  kernels_->merge(b.view, partial(0, 1, std::log(8) * std::numbers::log2e, 1).view);
  EXPECT_NEAR(finalize(b).out[0], 0.2, 1e-7);
  EXPECT_NEAR(finalize(b).lse, std::log(10), 1e-6);
}

TEST_P(PartialTest, MergeAgreesInAnyOrder) {
  std::vector<int> order = {0, 1, 2, 3};
  const double maxima[] = {-3, 280, 281.5, 0.5};
  std::vector<double> first;
  do {
    const OwnedPartial sum = partial(0, 0, -HUGE_VAL, 0);
    for (const int n : order) {
      kernels_->merge(sum.view, partial(0.5 * n, 1 - n, maxima[n], 1.25 + n).view);
    }
    const Final result = finalize(sum);
    if (first.empty()) first = {result.out[0], result.out[1], result.lse};
    EXPECT_NEAR(result.out[0], first[0], 4 * 0x1p-23);
    EXPECT_NEAR(result.out[1], first[1], 4 * 0x1p-23);
    EXPECT_NEAR(result.lse, first[2], 200 * 0x1p-22);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_P(PartialTest, FinalizeOfNothingIsZeroWithOrWithoutASink) {
  const OwnedPartial nothing = partial(0, 0, -HUGE_VAL, 0);
  const Tensor sinks = make_tensor(*device_, Array(1, 1, 1, 1, 0.5), DType::f32);
  const ConstTensorView view = sinks;
  for (const ConstTensorView* sink : {static_cast<const ConstTensorView*>(nullptr), &view}) {
    const Final result = finalize(nothing, sink);
    EXPECT_EQ(result.out, (std::vector<double>{0, 0}));
    EXPECT_EQ(result.lse, -HUGE_VAL);
  }
}

TEST_P(PartialTest, ASinkFarAboveOrBelowIsTakenExactly) {
  for (const double sink : {-1e4, 1e4}) {
    const OwnedPartial row = partial(3, 4, 0, 1);
    const Tensor sinks = make_tensor(*device_, Array(1, 1, 1, 1, sink), DType::f32);
    const ConstTensorView view = sinks;
    const Final result = finalize(row, &view);
    EXPECT_EQ(result.out[0], sink > 0 ? 0.0 : 3.0);
    EXPECT_NEAR(result.lse, std::max(sink, 0.0), 1e4 * 0x1p-22);
  }
}

TEST_P(PartialTest, FinalizeWithoutLseWritesOnlyOut) {
  const OwnedPartial row = partial(3, 4, 2, 2);
  const Tensor out(*device_, DType::bf16, 1, 1, 1, 2);
  kernels_->finalize(row.view, nullptr, out, {});
  EXPECT_EQ(read(out).values, (std::vector<double>{1.5, 2}));
}

TEST_P(PartialTest, NoTilesTouchNothing) {
  const OwnedPartial row = partial(0.3, -1.7, -5.25, 1.9);
  const auto before = numbers(row);
  const Tensor rows = make_tensor(*device_, Array(1, 1, 1, 2, 0.7), DType::f32);
  const Tensor scalars = make_tensor(*device_, Array(1, 1, 1, 1, 0.7), DType::f32);
  kernels_->forward({rows, rows, rows, {}, {}}, row.view);
  EXPECT_EQ(numbers(row), before);
  const Tensor gradient = make_tensor(*device_, Array(1, 1, 1, 2, 0.25), DType::f32);
  kernels_->backward({rows, rows, rows, {}, {}, scalars, scalars, rows}, gradient, gradient,
                     gradient);
  EXPECT_EQ(read(gradient).values, (std::vector<double>{0.25, 0.25}));
}

TEST_P(PartialTest, BackwardAndSinkGradientsAddToWhatIsThere) {
  const Tensor rows = make_tensor(*device_, Array(1, 1, 1, 2, 1.0), DType::f32);
  const Tensor zero = make_tensor(*device_, Array(1, 1, 1, 1), DType::f32);
  const Tensor dq = make_tensor(*device_, Array(1, 1, 1, 2, 8.0), DType::f32);
  const Tensor dk = make_tensor(*device_, Array(1, 1, 1, 2, 16.0), DType::f32);
  const Tensor dv = make_tensor(*device_, Array(1, 1, 1, 2, 32.0), DType::f32);
  const std::vector<Tile> tiles = {{{0, 1, 1}, {0, 1, 1}, 0, 0}};
  // s = 0.25 * 2 = 0.5; p = exp(0.5 - 0.5); d_out.v = 2; ds = 2.
  const Tensor lse = make_tensor(*device_, Array(1, 1, 1, 1, 0.5), DType::f32);
  kernels_->backward({rows, rows, rows, tiles, {.scale = 0.25}, lse, zero, rows}, dq, dk, dv);
  EXPECT_THAT(read(dq).values, testing::Each(testing::DoubleNear(8.5, 1e-6)));
  EXPECT_THAT(read(dk).values, testing::Each(testing::DoubleNear(16.5, 2e-6)));
  EXPECT_THAT(read(dv).values, testing::Each(testing::DoubleNear(33, 4e-6)));

  const Tensor d_sinks = make_tensor(*device_, Array(1, 1, 1, 1, 4.0), DType::f32);
  const TensorView d_sinks_view = d_sinks;
  const ConstTensorView sinks = lse;  // exp(0.5 - 0.5) = 1
  kernels_->delta(rows, rows, lse, &sinks, zero, &d_sinks_view);
  EXPECT_NEAR(read(zero).values[0], 2, 1e-6);
  EXPECT_NEAR(read(d_sinks).values[0], 4 - 2, 1e-6);
}

TEST_P(PartialTest, DeltaOfARowThatSawNothingIsZeroWhateverItHolds) {
  const Tensor out = make_tensor(*device_, Array(1, 2, 1, 2), DType::f32);
  const Tensor d_out = make_tensor(*device_, Array(1, 2, 1, 2, NAN), DType::f32);
  const Tensor lse = make_tensor(*device_, Array(1, 2, 1, 1, -HUGE_VAL), DType::f32);
  const Tensor sinks = make_tensor(*device_, Array(1, 1, 1, 1, 0.5), DType::f32);
  const Tensor d_sinks = make_tensor(*device_, Array(1, 1, 1, 1, 4.0), DType::f32);
  const Tensor delta = make_tensor(*device_, Array(1, 2, 1, 1, NAN), DType::f32);
  const ConstTensorView sinks_view = sinks;
  const TensorView d_sinks_view = d_sinks;
  kernels_->delta(out, d_out.view(), lse, &sinks_view, delta, &d_sinks_view);
  EXPECT_EQ(read(delta).values, (std::vector<double>{0, 0}));
  EXPECT_EQ(read(d_sinks).values[0], 4);
}

}  // namespace
}  // namespace ringspan::attention
