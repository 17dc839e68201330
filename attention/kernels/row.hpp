// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attention/kernels/scalar.hpp"
#include "attention/tile.hpp"

namespace ringspan::attention {

/// Row of one token and head, as kernels of the host see it that are to be read rather than quick.
struct Row {
  std::int64_t b, t, h;
};

inline double load(const ConstTensorView& from, const Row& row, std::int64_t d = 0) {
  return load(from.data, from.dtype, from.offset(row.b, row.t, row.h, d));
}

inline void store(const TensorView& to, const Row& row, std::int64_t d, double value) {
  store(to.data, to.dtype, to.offset(row.b, row.t, row.h, d), value);
}

inline void add(const TensorView& to, const Row& row, std::int64_t d, double value) {
  store(to, row, d, load(to, row, d) + value);
}

inline void load_row(const ConstTensorView& from, const Row& row, std::vector<double>& to) {
  to.resize(from.head_dim);
  for (std::int64_t d = 0; d < from.head_dim; ++d) to[d] = load(from, row, d);
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

template <typename Each>
void for_each_row(const ConstTensorView& rows, const Each& each) {
  for (std::int64_t b = 0; b < rows.batch; ++b) {
    for (std::int64_t t = 0; t < rows.tokens; ++t) {
      for (std::int64_t h = 0; h < rows.heads; ++h) each(Row{b, t, h});
    }
  }
}

/// The token of row i of a tile's queries or keys.
inline std::int64_t token(const Rows& rows, std::int64_t i) { return rows.first + rows.step * i; }

/// Rows first .. end - 1 of a tile's queries or keys: the keys that query i sees, the queries that
/// see key j.
struct Range {
  std::int64_t first = 0, end = 0;
};
inline Range keys_of(const Tile& tile, std::int64_t i) {
  return {std::max<std::int64_t>(i + tile.lo, 0), std::min(i + tile.hi + 1, tile.keys.count)};
}
inline Range queries_of(const Tile& tile, std::int64_t j) {
  return {std::max<std::int64_t>(j - tile.hi, 0), std::min(j - tile.lo + 1, tile.queries.count)};
}

}  // namespace ringspan::attention
