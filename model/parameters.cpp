// SPDX-License-Identifier: Apache-2.0
#include "model/parameters.hpp"

#include <functional>
#include <utility>

#include "model/random.hpp"

namespace ringspan::model {

Parameter& Parameters::add(Parameter parameter) {
  all_.push_back(std::move(parameter));
  return all_.back();
}

Part Parameters::rows(const Parameter& parameter) const {
  return parameter.cut == Cut::rows ? cut(parameter.rows) : Part{0, parameter.rows};
}

Part Parameters::columns(const Parameter& parameter) const {
  return parameter.cut == Cut::columns ? cut(parameter.columns) : Part{0, parameter.columns};
}

void Parameters::allocate(std::uint64_t seed) {
  const auto elements = [&](const Parameter& parameter) {
    return rows(parameter).count * columns(parameter).count;
  };
  std::int64_t total = 0;
  for (const Parameter& parameter : all_) {
    if (parameter.cut != Cut::none) replicated_.first += elements(parameter);
    total += elements(parameter);
  }
  replicated_.count = total - replicated_.first;
  values_ = Matrix(tensor_.device(), dtype_, 1, total);
  gradients_ = Matrix(tensor_.device(), dtype_, 1, total);
  fill(gradients_, 0);

  std::int64_t next_cut = 0, next_whole = replicated_.first;
  for (std::size_t index = 0; index < all_.size(); ++index) {
    Parameter& parameter = all_[index];
    std::int64_t& next = parameter.cut == Cut::none ? next_whole : next_cut;
    const auto place = [&](const Matrix& in) {
      return Matrix(in.slice().buffer, next * attention::element_bytes(dtype_), dtype_,
                    rows(parameter).count, columns(parameter).count);
    };
    parameter.first = next;
    parameter.value = place(values_);
    parameter.gradient = place(gradients_);
    next += elements(parameter);
    initialise(parameter, random_bits(seed, index));
  }
}

void Parameters::initialise(const Parameter& parameter, std::uint64_t seed) const {
  const Part of_rows = rows(parameter), of_columns = columns(parameter);
  with_real(dtype_, [&](auto zero) {
    using Real = decltype(zero);
    for (std::int64_t i = 0; i < of_rows.count; ++i) {
      Real* const row = parameter.value.data<Real>(i);
      for (std::int64_t j = 0; j < of_columns.count; ++j) {
        const std::int64_t index = (of_rows.first + i) * parameter.columns + of_columns.first + j;
        row[j] = static_cast<Real>(parameter.initial.mean +
                                   parameter.initial.deviation * random_normal(seed, index));
      }
    }
  });
}

}  // namespace ringspan::model
