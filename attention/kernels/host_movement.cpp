// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/host_movement.hpp"

#include <algorithm>
#include <cstring>

#include "attention/kernels/run_axes.hpp"
#include "attention/kernels/scalar.hpp"
#include "comm/error.hpp"
#include "comm/reproducible_sum.hpp"

namespace ringspan::attention {
namespace {

/// Calls each(offset in from, offset in to, count) for every run of elements.
template <typename Each>
void for_each_run(const ConstTensorView& from, const ConstTensorView& to, const Each& each) {
  const RunAxes axes = joined(from, to);
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
  require_one_accumulator(from, to);
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
