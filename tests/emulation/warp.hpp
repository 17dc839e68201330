// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>

#include "attention/kernels/cuda/warp.cuh"
#include "attention/kernels/scalar.hpp"

namespace ringspan::emulation {

using attention::cuda::Half;

/// What the threads of a warp do together, each lane with operands of its own.
using Operation = void (*)(std::span<void* const> lanes);

constexpr unsigned kLanes = 32;

template <typename Operands>
Operands& lane(std::span<void* const> lanes, unsigned l) {
  return *static_cast<Operands*>(lanes[l]);
}

inline void require_whole(std::span<void* const> lanes) {
  if (lanes.size() != kLanes) throw std::runtime_error("matrices need a warp of 32 threads");
}

struct Shuffle {
  float value;
  unsigned mask;
  float received = 0;
};

inline void shuffle(std::span<void* const> lanes) {
  for (unsigned l = 0; l < lanes.size(); ++l) {
    auto& mine = lane<Shuffle>(lanes, l);
    const unsigned from = l ^ mine.mask;
    mine.received = lane<Shuffle>(lanes, from < lanes.size() ? from : l).value;
  }
}

struct Matrices {
  const void* row;
  std::uint32_t* to;
};

template <bool kTransposed>
void load(std::span<void* const> lanes) {
  require_whole(lanes);
  for (unsigned m = 0; m < 4; ++m) {
    std::uint16_t matrix[8][8];
    for (unsigned r = 0; r < 8; ++r) {
      const void* row = lane<Matrices>(lanes, 8 * m + r).row;
      if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) {
        throw std::runtime_error("the row of a matrix is not aligned to 16 bytes");
      }
      std::memcpy(matrix[r], row, sizeof matrix[r]);
    }
    for (unsigned l = 0; l < kLanes; ++l) {
      const unsigned r = l / 4, c = 2 * (l % 4);
      const std::uint32_t low = kTransposed ? matrix[c][r] : matrix[r][c];
      const std::uint32_t high = kTransposed ? matrix[c + 1][r] : matrix[r][c + 1];
      lane<Matrices>(lanes, l).to[m] = low | high << 16;
    }
  }
}

template <Half kHalf>
float widen(std::uint32_t packed, unsigned half) {
  const auto bits = static_cast<std::uint16_t>(packed >> (16 * half));
  if constexpr (kHalf == Half::bf16) return attention::widen(attention::Bf16{bits});
  return attention::widen(attention::F16{bits});
}

struct Product {
  float* c;
  const std::uint32_t* a;
  std::uint32_t b[2];
};

template <Half kHalf>
void multiply(std::span<void* const> lanes) {
  require_whole(lanes);
  float a[16][16], b[16][8];
  for (unsigned l = 0; l < kLanes; ++l) {
    const auto& mine = lane<Product>(lanes, l);
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned g = l / 4, k = 2 * (l % 4) + half;
      for (unsigned r = 0; r < 4; ++r) {
        a[g + 8 * (r % 2)][k + 8 * (r / 2)] = widen<kHalf>(mine.a[r], half);
      }
      for (unsigned r = 0; r < 2; ++r) b[k + 8 * r][g] = widen<kHalf>(mine.b[r], half);
    }
  }
  for (unsigned l = 0; l < kLanes; ++l) {
    for (unsigned n = 0; n < 4; ++n) {
      const unsigned row = l / 4 + 8 * (n / 2), column = 2 * (l % 4) + n % 2;
      float& c = lane<Product>(lanes, l).c[n];
      for (unsigned k = 0; k < 16; ++k) c += a[row][k] * b[k][column];
    }
  }
}

}  // namespace ringspan::emulation
