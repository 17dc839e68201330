// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "attention/tensor.hpp"
#include "gtest/gtest.h"

namespace ringspan::attention {

/// [batch][tokens][heads][dim] in fp64, packed: what the oracle computes with.
struct Array {
  Array() = default;
  Array(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t dim,
        double value = 0)
      : batch(batch),
        tokens(tokens),
        heads(heads),
        dim(dim),
        values(static_cast<std::size_t>(batch * tokens * heads * dim), value) {}

  double* row(std::int64_t b, std::int64_t t, std::int64_t h) {
    return values.data() + ((b * tokens + t) * heads + h) * dim;
  }
  const double* row(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return values.data() + ((b * tokens + t) * heads + h) * dim;
  }

  std::int64_t batch = 0, tokens = 0, heads = 0, dim = 0;
  std::vector<double> values;
};

/// Normally distributed, rounded to `dtype`; the same for the same seed on every machine.
Array random_array(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t dim,
                   DType dtype, std::uint64_t seed);

/// The tokens at these positions, in this order, and back.
Array take_tokens(const Array& whole, std::span<const std::int64_t> positions);
void put_tokens(const Array& part, std::span<const std::int64_t> positions, Array& whole);

/// Between host memory and arrays of the same shape.
void write(const Array& from, const TensorView& to);
Array read(const ConstTensorView& from);

/// A host tensor with the values of `from`.
Tensor make_tensor(comm::Device& device, const Array& from, DType dtype);
/// The same of the tokens at `positions`, in this order.
Tensor make_tensor(comm::Device& device, const Array& whole,
                   std::span<const std::int64_t> positions, DType dtype);

/// Half the distance between neighbours of `dtype`, relative to where it is largest.
double half_ulp(DType dtype);

/// A bound on the error of each element: factor * fp32 epsilon * unit (fp64 epsilon if that is what
/// is stored), and the rounding to `stored`. Terms that underflow get 1e-35.
struct Bound {
  double factor = 16;
  DType stored = DType::f32;
};

/// For dq, dk and d_sinks, whose units are sums over more terms and exaggerate more. Either factor
/// is two to three times what the largest error of these tests needs.
constexpr double kGradientFactor = 6;

/// The factor where weights and their gradients are rounded to `dtype` before they are multiplied,
/// as for tensor cores: of two factors of a product, beside which all else is small.
double weight_factor(DType dtype);

/// Success if every element is within its bound; otherwise tells how many are not, and the worst of
/// them with its index. Equal infinities agree, NaN never does.
testing::AssertionResult close(std::string_view what, const Array& actual, const Array& expected,
                               const Array& unit, const Bound& bound = {});

/// The same for a host tensor, against the tokens at `positions` of the other two.
testing::AssertionResult close_tokens(std::string_view what, const ConstTensorView& actual,
                                      std::span<const std::int64_t> positions,
                                      const Array& expected, const Array& unit,
                                      const Bound& bound = {});

/// Success if the two have the same shape and bits.
testing::AssertionResult same_bits(std::string_view what, const Array& actual,
                                   const Array& expected);
testing::AssertionResult same_bits(std::string_view what, const ConstTensorView& actual,
                                   const ConstTensorView& expected);

}  // namespace ringspan::attention
