// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/host_movement.hpp"

#include <algorithm>
#include <cstring>

#include "attention/kernels/scalar.hpp"
#include "comm/error.hpp"
#include "comm/reproducible_sum.hpp"

namespace ringspan::attention {
namespace {

/// How many elements lie one after the other in both tensors, so that loops are as long as can be.
/// In one axis after another, rows follow each other without a gap, or there is but one of them.
struct Axes {
  std::int64_t batch, tokens, heads, run;
};

Axes joined(const ConstTensorView& a, const ConstTensorView& b) {
  Axes axes{a.batch, a.tokens, a.heads, a.head_dim};
  const auto join = [&](std::int64_t& count, std::int64_t a_stride, std::int64_t b_stride) {
    if (count != 1 && (a_stride != axes.run || b_stride != axes.run)) return false;
    axes.run *= count;
    count = 1;
    return true;
  };
  join(axes.heads, a.head_stride, b.head_stride) &&
      join(axes.tokens, a.token_stride, b.token_stride) &&
      join(axes.batch, a.batch_stride, b.batch_stride);
  return axes;
}

/// Calls each(offset in from, offset in to, count) for every run of elements.
template <typename Each>
void for_each_run(const ConstTensorView& from, const ConstTensorView& to, const Each& each) {
  const Axes axes = joined(from, to);
  for (std::int64_t b = 0; b < axes.batch; ++b) {
    for (std::int64_t t = 0; t < axes.tokens; ++t) {
      for (std::int64_t h = 0; h < axes.heads; ++h) {
        each(from.offset(b, t, h), to.offset(b, t, h), axes.run);
      }
    }
  }
}

using comm::ReproducibleSum;

/// with_element(), and reproducible sums.
template <typename Visitor>
void with_stored(DType dtype, const Visitor& visitor) {
  if (dtype == DType::reproducible) return visitor(std::type_identity<ReproducibleSum>{});
  with_element(dtype, visitor);
}

template <typename To, typename From>
To converted(const From& from) {
  if constexpr (std::is_same_v<From, ReproducibleSum>) {
    return convert<To>(from.value());
  } else if constexpr (std::is_same_v<To, ReproducibleSum>) {
    ReproducibleSum sum;
    sum.add(static_cast<double>(widen(from)));
    return sum;
  } else {
    return convert<To>(from);
  }
}

template <typename From, typename To>
void copy_run(const From* from, To* to, std::int64_t count) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(To));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = converted<To>(from[i]);
  }
}

void require_same_shape(const char* operation, const ConstTensorView& from,
                        const ConstTensorView& to) {
  RINGSPAN_REQUIRE(from.batch == to.batch && from.tokens == to.tokens && from.heads == to.heads &&
                       from.head_dim == to.head_dim,
                   operation, ": the source is [", from.batch, "][", from.tokens, "][", from.heads,
                   "][", from.head_dim, "] but the destination [", to.batch, "][", to.tokens, "][",
                   to.heads, "][", to.head_dim, "]; they must be equal");
}

}  // namespace

void copy_on_host(const ConstTensorView& from, const TensorView& to) {
  require_same_shape("copy", from, to);
  if (to.elements() == 0) return;
  with_stored(from.dtype, [&]<typename From>(std::type_identity<From>) {
    with_stored(to.dtype, [&]<typename To>(std::type_identity<To>) {
      for_each_run(from, to, [&](std::int64_t from_at, std::int64_t to_at, std::int64_t count) {
        copy_run(static_cast<const From*>(from.data) + from_at, static_cast<To*>(to.data) + to_at,
                 count);
      });
    });
  });
}

void accumulate_on_host(const ConstTensorView& from, const TensorView& to) {
  require_same_shape("accumulate", from, to);
  RINGSPAN_REQUIRE(from.dtype == to.dtype && to.dtype == accumulator(to.dtype),
                   "accumulate: ", name(from.dtype), " into ", name(to.dtype),
                   "; both must be the same accumulator");
  if (to.elements() == 0) return;
  const auto add = [&]<typename Element>(std::type_identity<Element>) {
    for_each_run(from, to, [&](std::int64_t from_at, std::int64_t to_at, std::int64_t count) {
      const Element* source = static_cast<const Element*>(from.data) + from_at;
      Element* sum = static_cast<Element*>(to.data) + to_at;
      for (std::int64_t i = 0; i < count; ++i) sum[i] += source[i];
    });
  };
  if (to.dtype == DType::reproducible) return add(std::type_identity<ReproducibleSum>{});
  to.dtype == DType::f64 ? add(std::type_identity<double>{}) : add(std::type_identity<float>{});
}

void fill_on_host(const TensorView& to, double value) {
  if (to.elements() == 0) return;
  with_stored(to.dtype, [&]<typename To>(std::type_identity<To>) {
    const To element = converted<To>(value);
    for_each_run(to, to, [&](std::int64_t, std::int64_t at, std::int64_t count) {
      std::fill_n(static_cast<To*>(to.data) + at, count, element);
    });
  });
}

}  // namespace ringspan::attention
