// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/array.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <sstream>

#include "attention/kernels/scalar.hpp"

namespace ringspan::attention {
namespace {

double rounded(double value, DType dtype) {
  return with_element(dtype, [&]<typename Element>(std::type_identity<Element>) -> double {
    return widen(convert<Element>(value));
  });
}

double allowed_error(double expected, double unit, const Bound& bound) {
  const double epsilon = bound.stored == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double smallest = bound.stored == DType::f16 ? 0x1p-25 : 0.0;  // half its subnormal spacing
  return bound.factor * epsilon * unit + half_ulp(bound.stored) * std::abs(expected) + smallest +
         1e-35;
}

std::string shape(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
  std::ostringstream text;
  text << '[' << b << "][" << t << "][" << h << "][" << d << ']';
  return text.str();
}

std::string shape(const Array& a) { return shape(a.batch, a.tokens, a.heads, a.dim); }

std::string index(const Array& a, std::size_t i) {
  const auto at = static_cast<std::int64_t>(i);
  return shape(at / a.dim / a.heads / a.tokens, at / a.dim / a.heads % a.tokens,
               at / a.dim % a.heads, at % a.dim);
}

}  // namespace

double half_ulp(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
  }
  return 0;
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
  for (std::int64_t b = 0; b < to.batch; ++b) {
    for (std::int64_t t = 0; t < to.tokens; ++t) {
      for (std::int64_t h = 0; h < to.heads; ++h) {
        const double* row = from.row(b, t, h);
        for (std::int64_t d = 0; d < to.head_dim; ++d) {
          store(to.data, to.dtype, to.offset(b, t, h, d), row[d]);
        }
      }
    }
  }
}

Array read(const ConstTensorView& from) {
  Array to(from.batch, from.tokens, from.heads, from.head_dim);
  for (std::int64_t b = 0; b < to.batch; ++b) {
    for (std::int64_t t = 0; t < to.tokens; ++t) {
      for (std::int64_t h = 0; h < to.heads; ++h) {
        double* row = to.row(b, t, h);
        for (std::int64_t d = 0; d < to.dim; ++d) {
          row[d] = load(from.data, from.dtype, from.offset(b, t, h, d));
        }
      }
    }
  }
  return to;
}

Tensor make_tensor(comm::Device& device, const Array& from, DType dtype) {
  Tensor tensor(device, dtype, from.batch, from.tokens, from.heads, from.dim);
  write(from, tensor);
  return tensor;
}

testing::AssertionResult close(std::string_view what, const Array& actual, const Array& expected,
                               const Array& unit, const Bound& bound) {
  if (shape(actual) != shape(expected) || shape(unit) != shape(expected)) {
    return testing::AssertionFailure() << what << " is " << shape(actual) << ", expected "
                                       << shape(expected) << ", unit " << shape(unit);
  }
  std::size_t wrong = 0, worst = 0;
  double worst_ratio = 0;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double a = actual.values[i], e = expected.values[i];
    if (a == e) continue;
    const double ratio = std::abs(a - e) / allowed_error(e, unit.values[i], bound);
    if (ratio <= 1) continue;  // false for NaN
    ++wrong;
    if (ratio <= worst_ratio) continue;
    worst = i;
    worst_ratio = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
  }
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << what << ": " << wrong << " of " << expected.values.size()
         << " elements are out of bounds; worst at " << index(expected, worst) << ": "
         << actual.values[worst] << " instead of " << expected.values[worst] << ", " << worst_ratio
         << " times the allowed error";
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
           << what << " differs at " << index(expected, i) << ": " << a << " instead of " << e;
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
