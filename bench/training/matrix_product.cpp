// SPDX-License-Identifier: Apache-2.0
#include "bench/training/matrix_product.hpp"

#include <algorithm>

namespace ringspan::bench {
namespace {

// MAMF: S. Bekman, Machine Learning Engineering, maximum achievable matmul FLOPS, version 2.
constexpr ProductAnchor kAnchors[] = {
    {"h100", 132, 989e12, 2.68e12, 794.5e12, {2048, 2048, 13312}, "MAMF, CUDA 12.6"},
    {"a100", 108, 312e12, 1.63e12, 271.2e12, {1024, 10240, 5120}, "MAMF, CUDA 12.6"},
    {"l20",
     92,
     119.5e12,
     0.69e12,
     110e12,
     {8192, 8192, 8192},
     "LeetCUDA, hgemm: cuBLAS 105 to 115; shape assumed"},
};

/// GPUs that differ in links and memory, and not in what multiplies.
struct Kind {
  std::string_view gpu, anchor;
};
constexpr Kind kKinds[] = {{"a800", "a100"}, {"h800", "h100"}, {"h200", "h100"}};

struct Block {
  std::int64_t rows, columns;
};
constexpr Block kBlocks[] = {{128, 256}, {256, 128}, {128, 128}};  // of cuBLAS, the usual ones

const ProductAnchor& anchor_of(std::string_view gpu) {
  for (const Kind& kind : kKinds) {
    if (kind.gpu == gpu) gpu = kind.anchor;
  }
  const auto* found = std::find_if(std::begin(kAnchors), std::end(kAnchors),
                                   [gpu](const ProductAnchor& known) { return known.gpu == gpu; });
  return found != std::end(kAnchors) ? *found : kAnchors[0];
}

/// What all multiprocessors could do while the busiest has its blocks, of the best size.
double occupied_flops(const Product& product, int multiprocessors) {
  double least = 0;
  for (const Block& block : kBlocks) {
    const std::int64_t blocks =
        product.batch * parts(product.rows, block.rows) * parts(product.columns, block.columns);
    const std::int64_t waves = parts(blocks, multiprocessors);
    const double flops = static_cast<double>(waves * multiprocessors) *
                         Product{block.rows, block.columns, product.depth}.flops();
    if (least == 0 || flops < least) least = flops;
  }
  return least;
}

double write_seconds(const Product& product, double bytes_per_second) {
  const std::int64_t elements = product.batch * product.rows * product.columns;
  return static_cast<double>(elements * product.output_bytes) / bytes_per_second;
}

double read_seconds(const Product& product, double bytes_per_second) {
  const std::int64_t elements = product.batch * (product.rows + product.columns) * product.depth;
  return static_cast<double>(elements * 2) / bytes_per_second;
}

/// Of the peak, that multiprocessors attain which all have blocks.
double attained_share(const ProductAnchor& anchor) {
  const double seconds = anchor.shape.flops() / anchor.flops_per_second;
  const double multiplying = seconds - write_seconds(anchor.shape, anchor.memory_bytes_per_second);
  return occupied_flops(anchor.shape, anchor.multiprocessors) /
         (multiplying * anchor.peak_flops_per_second);
}

}  // namespace

std::span<const ProductAnchor> product_anchors() { return kAnchors; }

double product_seconds(const comm::Gpu& gpu, const Product& product) {
  const double rate = gpu.flops_per_second * attained_share(anchor_of(gpu.kind));
  const double multiply = occupied_flops(product, gpu.multiprocessors) / rate;
  return std::max(multiply, read_seconds(product, gpu.memory_bytes_per_second)) +
         write_seconds(product, gpu.memory_bytes_per_second);
}

}  // namespace ringspan::bench
