// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/block.hpp"

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringspan::emulation {
namespace {

using namespace attention::cuda;  // what kernels are written in
using testing::ThrowsMessage, testing::HasSubstr;

TEST(BlockTest, RunsEveryThreadOfEveryBlockOnce) {
  std::vector<int> runs(2 * 3 * 2 * 40);
  launch({2, 3, 2}, 40, 0, [&] {
    const Index3 block = block_index();
    ++runs[((block.z * 3 + block.y) * 2 + block.x) * 40 + thread_index()];
  });
  EXPECT_THAT(runs, testing::Each(1));
}

TEST(BlockTest, ABarrierShowsWhatOthersWroteBefore) {
  std::vector<unsigned> read(96);
  launch({1, 1, 1}, 96, 96 * sizeof(unsigned), [&] {
    auto* shared = reinterpret_cast<unsigned*>(shared_memory());
    shared[thread_index()] = thread_index();
    sync_threads();
    read[thread_index()] = shared[95 - thread_index()];
  });
  for (unsigned t = 0; t < 96; ++t) EXPECT_EQ(read[t], 95 - t);
}

TEST(BlockTest, AShuffleStaysInItsWarp) {
  std::vector<float> received(64);
  launch({1, 1, 1}, 64, 0,
         [&] { received[thread_index()] = shuffle_xor(static_cast<float>(thread_index()), 5); });
  for (unsigned t = 0; t < 64; ++t) EXPECT_EQ(received[t], static_cast<float>(t ^ 5));
}

TEST(BlockTest, AddsAtomically) {
  float sum = 0;
  launch({3, 1, 1}, 32, 0, [&] { atomic_add(&sum, 1.0f); });
  EXPECT_EQ(sum, 96.0f);
}

TEST(BlockTest, SaysWhichThreadsMissTheBarrier) {
  const auto kernel = [] {
    if (thread_index() != 2) sync_threads();
  };
  EXPECT_THAT(
      [&] {
        launch({1, 1, 1}, 4, 0, kernel);
      },
      ThrowsMessage<std::runtime_error>(HasSubstr(
          "diverges in block 0,0,0: at sync_threads threads 0 1 3; at the end threads 2;")));
}

TEST(BlockTest, SaysWhichThreadsAreAtAnotherOperation) {
  const auto kernel = [] { thread_index() < 16 ? sync_warp() : sync_threads(); };
  EXPECT_THAT(
      [&] {
        launch({1, 1, 1}, 32, 0, kernel);
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("diverges")));
}

TEST(BlockTest, ThrowsWhatAThreadThrows) {
  const auto kernel = [] {
    sync_threads();
    if (thread_index() == 7) throw std::out_of_range("seven");
  };
  EXPECT_THAT([&] { launch({1, 1, 1}, 32, 0, kernel); }, ThrowsMessage<std::out_of_range>("seven"));
}

TEST(BlockTest, AnAsynchronousCopyArrivesWhenItIsWaitedFor) {
  alignas(16) const std::uint32_t from[4] = {1, 2, 3, 4};
  std::vector<std::uint32_t> seen;
  launch({1, 1, 1}, 1, 32, [&] {
    auto* to = reinterpret_cast<std::uint32_t*>(shared_memory());
    copy_async(to, from, true);
    commit_copies();
    copy_async(to + 4, from, false);
    commit_copies();
    seen.push_back(to[3]);
    wait_copies<1>();
    seen.push_back(to[3]);
    seen.push_back(to[7]);
    wait_copies<0>();
    seen.push_back(to[7]);
  });
  EXPECT_THAT(seen, testing::ElementsAre(0xffffffffu, 4, 0xffffffffu, 0));
}

/// Small whole numbers, which both types hold exactly.
float number(unsigned row, unsigned column, unsigned seed) {
  return static_cast<float>((7 * row + 3 * column + seed * row * column) % 11) - 5.0f;
}

// c = a b from row-major a[16][16] and b[16][8] in shared memory: the layouts of registers as the
// PTX manual draws them, here written down a second time.
template <Half kHalf>
void expect_product() {
  std::vector<float> c(16 * 8);
  launch({1, 1, 1}, 32, 2 * 16 * 16 * 2, [&] {
    const unsigned lane = thread_index();
    auto* a = reinterpret_cast<std::uint16_t*>(shared_memory());
    std::uint16_t* b = a + 16 * 16;
    for (unsigned n = lane; n < 256; n += 32) {
      a[n] = static_cast<std::uint16_t>(pack<kHalf>(number(n / 16, n % 16, 1), 0));
      b[n] = static_cast<std::uint16_t>(pack<kHalf>(number(n / 16, n % 16, 2), 0));
    }
    sync_warp();
    std::uint32_t a_registers[4], b_registers[4];
    load_matrices(a + (lane % 16) * 16 + lane / 16 * 8, a_registers);
    load_transposed(b + (lane % 16) * 16 + lane / 16 * 8, b_registers);
    float sums[4] = {1, 1, 1, 1};
    multiply_add<kHalf>(sums, a_registers, b_registers[0], b_registers[1]);
    for (unsigned n = 0; n < 4; ++n) {
      c[(lane / 4 + 8 * (n / 2)) * 8 + 2 * (lane % 4) + n % 2] = sums[n];
    }
  });
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned column = 0; column < 8; ++column) {
      float sum = 1;
      for (unsigned k = 0; k < 16; ++k) sum += number(row, k, 1) * number(k, column, 2);
      EXPECT_EQ(c[row * 8 + column], sum) << row << ',' << column;
    }
  }
}

TEST(BlockTest, MultipliesMatricesOfBf16) { expect_product<Half::bf16>(); }
TEST(BlockTest, MultipliesMatricesOfFp16) { expect_product<Half::f16>(); }

}  // namespace
}  // namespace ringspan::emulation
