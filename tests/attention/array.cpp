// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/array.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <ostream>
#include <random>

#include "attention/kernels/scalar.hpp"

namespace ringspan::attention {
namespace {

double rounded(double value, DType dtype) {
  return with_element(dtype, [&]<typename Element>(std::type_identity<Element>) -> double {
    return widen(convert<Element>(value));
  });
}

struct ArrayShape {
  std::int64_t batch, tokens, heads, dim;
  friend bool operator==(const ArrayShape&, const ArrayShape&) = default;

  friend std::ostream& operator<<(std::ostream& to, const ArrayShape& s) {
    return to << '[' << s.batch << "][" << s.tokens << "][" << s.heads << "][" << s.dim << ']';
  }

  std::int64_t offset(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return ((b * tokens + t) * heads + h) * dim;
  }

  ArrayShape index(std::int64_t at) const {
    return {at / dim / heads / tokens, at / dim / heads % tokens, at / dim % heads, at % dim};
  }
};

ArrayShape shape(const Array& a) { return {a.batch, a.tokens, a.heads, a.dim}; }

ArrayShape shape(const ConstTensorView& a) { return {a.batch, a.tokens, a.heads, a.head_dim}; }

// visit(batch, token, head, where that row starts in the view)
template <typename Visitor>
void for_each_row(const ConstTensorView& view, const Visitor& visit) {
  for (std::int64_t b = 0; b < view.batch; ++b) {
    for (std::int64_t t = 0; t < view.tokens; ++t) {
      for (std::int64_t h = 0; h < view.heads; ++h) visit(b, t, h, view.offset(b, t, h));
    }
  }
}

// Each row of `to` gets the values at row(batch, token, head), converted.
template <typename Row>
void write_rows(const Row& row, const TensorView& to) {
  with_element(to.dtype, [&]<typename Element>(std::type_identity<Element>) {
    for_each_row(to, [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t offset) {
      const double* from = row(b, t, h);
      std::transform(from, from + to.head_dim, static_cast<Element*>(to.data) + offset,
                     [](double value) { return convert<Element>(value); });
    });
  });
}

// |error| <= of_unit * unit + of_value * |expected| + constant.
struct AllowedError {
  explicit AllowedError(const Bound& bound)
      : of_unit(bound.factor * (bound.stored == DType::f64 ? 0x1p-52 : 0x1p-23)),
        of_value(half_ulp(bound.stored)),
        constant(1e-35 + (bound.stored == DType::f16 ? 0x1p-25 : 0)) {}  // half its least number

  double operator()(double expected, double unit) const {
    return of_unit * unit + of_value * std::abs(expected) + constant;
  }

  // False for NaN; equal infinities are right.
  bool admits(double actual, double expected, double unit) const {
    const double most = (*this)(expected, unit);
    const bool near = std::abs(actual - expected) <= most;
    return (actual == expected) | (near & (most <= std::numeric_limits<double>::max()));
  }

  double of_unit, of_value, constant;
};

// The worst of the elements that are out of bounds, and how many there are.
struct Comparison {
  std::int64_t wrong = 0, worst = 0;
  double worst_ratio = 0, actual = 0, expected = 0;

  // Elements first, first + 1, ... of an array, compared with as many of the two rows.
  template <typename Element>
  void add(const Element* row, const double* expected_row, const double* unit_row,
           std::int64_t count, const AllowedError& allowed, std::int64_t first) {
    std::int64_t right = 0;  // nearly always all of them, and a loop without branches can tell
    for (std::int64_t i = 0; i < count; ++i)
      right += allowed.admits(widen(row[i]), expected_row[i], unit_row[i]);
    if (right == count) return;
    for (std::int64_t i = 0; i < count; ++i) {
      const double a = widen(row[i]), e = expected_row[i];
      if (allowed.admits(a, e, unit_row[i])) continue;
      ++wrong;
      const double ratio = std::abs(a - e) / allowed(e, unit_row[i]);
      if (ratio <= worst_ratio) continue;
      worst = first + i;
      worst_ratio = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
      actual = a;
      expected = e;
    }
  }

  testing::AssertionResult result(std::string_view what, const ArrayShape& of) const {
    if (wrong == 0) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << what << ": " << wrong << " of " << of.offset(of.batch, 0, 0)
           << " elements are out of bounds; worst at " << of.index(worst) << ": " << actual
           << " instead of " << expected << ", " << worst_ratio << " times the allowed error";
  }
};

}  // namespace

double half_ulp(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
    case DType::reproducible: break;
  }
  return 0;
}

double weight_factor(DType dtype) {
  const bool rounded = dtype == DType::bf16 || dtype == DType::f16;
  return rounded ? 2 * half_ulp(dtype) / 0x1p-23 : Bound{}.factor;
}

Array random_array(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t dim,
                   DType dtype, std::uint64_t seed) {
  Array array(batch, tokens, heads, dim);
  std::mt19937_64 bits(seed);
  const auto uniform = [&] { return static_cast<double>((bits() >> 11) + 1) * 0x1p-53; };
  for (double& value : array.values) {
    // Box and Muller; std::normal_distribution differs between standard libraries.
    const double radius = std::sqrt(-2 * std::log(uniform()));
    value = rounded(radius * std::cos(2 * std::numbers::pi * uniform()), dtype);
  }
  return array;
}

Array take_tokens(const Array& whole, std::span<const std::int64_t> positions) {
  const auto tokens = static_cast<std::int64_t>(positions.size());
  Array part(whole.batch, tokens, whole.heads, whole.dim);
  for (std::int64_t b = 0; b < whole.batch; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::copy_n(whole.row(b, positions[t], 0), whole.heads * whole.dim, part.row(b, t, 0));
    }
  }
  return part;
}

void put_tokens(const Array& part, std::span<const std::int64_t> positions, Array& whole) {
  for (std::int64_t b = 0; b < part.batch; ++b) {
    for (std::int64_t t = 0; t < part.tokens; ++t) {
      std::copy_n(part.row(b, t, 0), part.heads * part.dim, whole.row(b, positions[t], 0));
    }
  }
}

void write(const Array& from, const TensorView& to) {
  write_rows([&](std::int64_t b, std::int64_t t, std::int64_t h) { return from.row(b, t, h); }, to);
}

Array read(const ConstTensorView& from) {
  Array to(from.batch, from.tokens, from.heads, from.head_dim);
  with_element(from.dtype, [&]<typename Element>(std::type_identity<Element>) {
    for_each_row(from, [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t offset) {
      const Element* row = static_cast<const Element*>(from.data) + offset;
      std::transform(row, row + to.dim, to.row(b, t, h),
                     [](Element value) -> double { return widen(value); });
    });
  });
  return to;
}

Tensor make_tensor(comm::Device& device, const Array& from, DType dtype) {
  Tensor tensor(device, dtype, from.batch, from.tokens, from.heads, from.dim);
  write(from, tensor);
  return tensor;
}

Tensor make_tensor(comm::Device& device, const Array& whole,
                   std::span<const std::int64_t> positions, DType dtype) {
  Tensor tensor(device, dtype, whole.batch, std::ssize(positions), whole.heads, whole.dim);
  write_rows(
      [&](std::int64_t b, std::int64_t t, std::int64_t h) { return whole.row(b, positions[t], h); },
      tensor);
  return tensor;
}

testing::AssertionResult close(std::string_view what, const Array& actual, const Array& expected,
                               const Array& unit, const Bound& bound) {
  if (shape(actual) != shape(expected) || shape(unit) != shape(expected)) {
    return testing::AssertionFailure() << what << " is " << shape(actual) << ", expected "
                                       << shape(expected) << ", unit " << shape(unit);
  }
  Comparison comparison;
  comparison.add(actual.values.data(), expected.values.data(), unit.values.data(),
                 std::ssize(actual.values), AllowedError(bound), 0);
  return comparison.result(what, shape(expected));
}

testing::AssertionResult close_tokens(std::string_view what, const ConstTensorView& actual,
                                      std::span<const std::int64_t> positions,
                                      const Array& expected, const Array& unit,
                                      const Bound& bound) {
  const ArrayShape part{expected.batch, std::ssize(positions), expected.heads, expected.dim};
  if (shape(actual) != part || shape(unit) != shape(expected)) {
    return testing::AssertionFailure()
           << what << " is " << shape(actual) << ", expected " << part << ", unit " << shape(unit);
  }
  Comparison comparison;
  const AllowedError allowed(bound);
  with_element(actual.dtype, [&]<typename Element>(std::type_identity<Element>) {
    for_each_row(actual, [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t offset) {
      comparison.add(static_cast<const Element*>(actual.data) + offset,
                     expected.row(b, positions[t], h), unit.row(b, positions[t], h), part.dim,
                     allowed, part.offset(b, t, h));
    });
  });
  return comparison.result(what, part);
}

testing::AssertionResult same_bits(std::string_view what, const Array& actual,
                                   const Array& expected) {
  if (shape(actual) != shape(expected)) {
    return testing::AssertionFailure()
           << what << " is " << shape(actual) << ", expected " << shape(expected);
  }
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double a = actual.values[i], e = expected.values[i];
    if (std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(e)) continue;
    return testing::AssertionFailure()
           << what << " differs at " << shape(expected).index(static_cast<std::int64_t>(i)) << ": "
           << a << " instead of " << e;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult same_bits(std::string_view what, const ConstTensorView& actual,
                                   const ConstTensorView& expected) {
  if (actual.dtype != expected.dtype) {
    return testing::AssertionFailure()
           << what << " is " << name(actual.dtype) << ", expected " << name(expected.dtype);
  }
  return same_bits(what, read(actual), read(expected));
}

}  // namespace ringspan::attention
