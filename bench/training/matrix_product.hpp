// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "comm/cluster.hpp"

namespace ringspan::bench {

/// [rows][depth] x [depth][columns], `batch` times at once.
struct Product {
  std::int64_t rows = 0, columns = 0, depth = 0, batch = 1;
  std::int64_t output_bytes = 2;  // of an element, as they are moved: 8 to add to 4

  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(columns) *
           static_cast<double>(depth) * static_cast<double>(batch);
  }
};

/// The best that has been published of one GPU multiplying 16-bit matrices, and of which shape.
struct ProductAnchor {
  std::string_view gpu;
  int multiprocessors;
  double peak_flops_per_second, memory_bytes_per_second;
  double flops_per_second;
  Product shape;
  std::string_view source;
};
std::span<const ProductAnchor> product_anchors();

/// Whole blocks of elements in whole waves over the multiprocessors, at the rate by which the
/// anchor's shape runs as published; then the blocks are written while nothing multiplies. Never
/// faster than memory gives both factors. A GPU without an anchor has the H100's share of its peak.
double product_seconds(const comm::Gpu& gpu, const Product& product);

/// Into how many parts something is cut; the last may be a smaller one.
constexpr std::int64_t parts(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

}  // namespace ringspan::bench
