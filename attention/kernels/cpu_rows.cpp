// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cpu_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "attention/kernels/logit.hpp"
#include "attention/kernels/scalar.hpp"

namespace ringspan::attention::cpu {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();  // maximum of no keys

template <typename Element>
Element* row(const TensorView& view, std::int64_t b, std::int64_t t, std::int64_t h) {
  return static_cast<Element*>(view.data) + view.offset(b, t, h);
}

template <typename Element>
const Element* row(const ConstTensorView& view, std::int64_t b, std::int64_t t, std::int64_t h) {
  return static_cast<const Element*>(view.data) + view.offset(b, t, h);
}

template <typename Each>
void for_each_row(const ConstTensorView& view, const Each& each) {
  for (std::int64_t b = 0; b < view.batch; ++b) {
    for (std::int64_t t = 0; t < view.tokens; ++t) {
      for (std::int64_t h = 0; h < view.heads; ++h) each(b, t, h);
    }
  }
}

double sink(const ConstTensorView& sinks, std::int64_t h) {
  return load(sinks.data, sinks.dtype, sinks.offset(0, 0, h));
}

template <typename Element>
void divide_row(const float* from, float divisor, std::int64_t count, Element* to) {
  for (std::int64_t d = 0; d < count; ++d) to[d] = convert<Element>(from[d] / divisor);
}

/// Sixteen running sums, which are a vector or a few, where one could not be vectorised.
template <typename A, typename B>
float dot_row(const A* a, const B* b, std::int64_t count) {
  constexpr std::int64_t kSums = 16;
  float sums[kSums] = {};
  std::int64_t d = 0;
  for (; d + kSums <= count; d += kSums) {
    for (std::int64_t i = 0; i < kSums; ++i) {
      sums[i] += convert<float>(a[d + i]) * convert<float>(b[d + i]);
    }
  }
  for (std::int64_t i = 0; d < count; ++i, ++d) {
    sums[i] += convert<float>(a[d]) * convert<float>(b[d]);
  }
  for (std::int64_t width = kSums / 2; width > 0; width /= 2) {
    for (std::int64_t i = 0; i < width; ++i) sums[i] += sums[i + width];
  }
  return sums[0];
}

}  // namespace

void merge(const Partial& into, const Partial& from) {
  for_each_row(into.max, [&](std::int64_t b, std::int64_t t, std::int64_t h) {
    float& into_max = *row<float>(into.max, b, t, h);
    const float from_max = *row<float>(from.max, b, t, h);
    if (from_max == kNothing) return;
    const float max = std::max(from_max, into_max);  // in this order a NaN is not lost
    const float keep = std::exp2(into_max - max), take = std::exp2(from_max - max);
    const float* from_out = row<float>(from.out, b, t, h);
    float* into_out = row<float>(into.out, b, t, h);
    for (std::int64_t d = 0; d < into.out.head_dim; ++d) {
      into_out[d] = keep * into_out[d] + take * from_out[d];
    }
    float& sum = *row<float>(into.sum, b, t, h);
    sum = keep * sum + take * *row<float>(from.sum, b, t, h);
    into_max = max;
  });
}

void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
              const TensorView& lse) {
  with_element(out.dtype, [&]<typename Element>(std::type_identity<Element>) {
    for_each_row(out, [&](std::int64_t b, std::int64_t t, std::int64_t h) {
      const float seen = *row<float>(partial.max, b, t, h);
      Element* out_row = row<Element>(out, b, t, h);
      double log_sum = kNothing;  // base 2
      if (seen == kNothing) {
        std::fill_n(out_row, out.head_dim, Element{});
      } else {
        const double sum = *row<float>(partial.sum, b, t, h);
        const double sink2 = sinks ? sink(*sinks, h) * std::numbers::log2e : kNothing;
        const double max = std::max<double>(seen, sink2);
        log_sum = max + std::log2(sum * std::exp2(seen - max) + std::exp2(sink2 - max));
        divide_row(row<float>(partial.out, b, t, h),
                   static_cast<float>(sum + std::exp2(sink2 - seen)), out.head_dim, out_row);
      }
      if (lse.data) *row<float>(lse, b, t, h) = static_cast<float>(log_sum * std::numbers::ln2);
    });
  });
}

void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
           const ConstTensorView* sinks, const TensorView& delta, const TensorView* d_sinks) {
  with_element(out.dtype, [&]<typename Out>(std::type_identity<Out>) {
    with_element(d_out.dtype, [&]<typename Gradient>(std::type_identity<Gradient>) {
      for_each_row(out, [&](std::int64_t b, std::int64_t t, std::int64_t h) {
        const bool saw_nothing = *row<float>(lse, b, t, h) == kNothing;
        *row<float>(delta, b, t, h) =
            saw_nothing
                ? 0.0f
                : dot_row(row<Out>(out, b, t, h), row<Gradient>(d_out, b, t, h), out.head_dim);
      });
    });
  });
  if (!sinks || !d_sinks) return;
  for (std::int64_t h = 0; h < out.heads; ++h) {
    double sum = 0;
    for_each_row(delta.slice_heads(h, 1), [&](std::int64_t b, std::int64_t t, std::int64_t) {
      const float row_lse = *row<float>(lse, b, t, h);
      if (row_lse == kNothing) return;
      sum += softmax_weight<double>(sink(*sinks, h), row_lse) * *row<float>(delta, b, t, h);
    });
    *row<float>(*d_sinks, 0, 0, h) -= static_cast<float>(sum);
  }
}

}  // namespace ringspan::attention::cpu
