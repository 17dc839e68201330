// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "attention/kernels.hpp"
#include "comm/error.hpp"
#include "tests/attention/modelled_device.hpp"

namespace ringspan::attention {
namespace {

constexpr double kMemory = 1e12;  // bytes per second
constexpr double kInfinity = std::numeric_limits<double>::infinity();

comm::Gpu h100() {
  comm::Gpu gpu;
  gpu.kind = "h100";
  gpu.multiprocessors = 132;
  gpu.memory_bytes_per_second = kMemory;
  return gpu;
}

/// 1024 queries of 32 heads against 2048 keys of 8, head_dim 128; no memory behind any of it.
class ModelledKernelsTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kQueries = 1024, kKeys = 2048, kHeads = 32, kKvHeads = 8;

  TensorView view(DType dtype, std::int64_t tokens, std::int64_t heads, std::int64_t dim) {
    next_ += 64;
    return TensorView::packed(reinterpret_cast<void*>(next_), dtype, 1, tokens, heads, dim);
  }

  std::unique_ptr<Kernels> kernels(std::string_view name) {
    auto kernels = make_kernels(name, device_);
    kernels->prepare({1, kHeads, kKvHeads, 128, 128, DType::bf16});
    return kernels;
  }

  void begin(Kernels& kernels) {
    kernels.fill(partial_.out, 0);
    kernels.fill(partial_.max, -kInfinity);
    kernels.fill(partial_.sum, 0);
    device_.calls.clear();
  }

  ForwardBlock block(const std::vector<Tile>& tiles) { return {q_, k_, v_, tiles, {}}; }

  std::uintptr_t next_ = 1 << 20;
  ModelledDevice device_{h100()};
  TensorView q_ = view(DType::bf16, kQueries, kHeads, 128);
  TensorView k_ = view(DType::bf16, kKeys, kKvHeads, 128);
  TensorView v_ = view(DType::bf16, kKeys, kKvHeads, 128);
  Partial partial_{view(DType::f32, kQueries, kHeads, 128), view(DType::f32, kQueries, kHeads, 1),
                   view(DType::f32, kQueries, kHeads, 1)};
  const std::vector<Tile> full_{{{0, 1, kQueries}, {0, 1, kKeys}, -1023, 2047}};
  const std::vector<Tile> half_{{{512, 1, 512}, {0, 1, kKeys}, -511, 2047}};
};

// FA3 forward, head_dim 128, is 690 TFLOP/s and 75 keys per row; persistent, and 256 thread blocks
// are more than the 132 multiprocessors.
TEST_F(ModelledKernelsTest, ForwardTakesTheTimeOfItsCurve) {
  const auto fa3 = kernels("modelled:fa3");
  begin(*fa3);
  fa3->forward(block(full_), partial_);
  ASSERT_EQ(device_.calls.size(), 2u);
  EXPECT_EQ(device_.calls[0].kernel, "attention_forward");
  EXPECT_DOUBLE_EQ(device_.calls[0].seconds, 4.0 * 128 * 32 * 1024 * (2048 + 75) / 690e12);
}

TEST_F(ModelledKernelsTest, AttentionAloneIsAsMuchFasterAsTheGpuSays) {
  const auto fa3 = kernels("modelled:fa3");
  comm::Gpu faster = h100();
  faster.attention_speed = 1.25;
  ModelledDevice device{faster};
  const auto faster_fa3 = make_kernels("modelled:fa3", device);
  faster_fa3->prepare({1, kHeads, kKvHeads, 128, 128, DType::bf16});
  begin(*fa3);
  fa3->forward(block(full_), partial_);
  begin(*faster_fa3);
  device.calls.clear();
  faster_fa3->forward(block(full_), partial_);
  ASSERT_EQ(device.calls.size(), 2u);
  EXPECT_DOUBLE_EQ(device.calls[0].seconds, device_.calls[0].seconds / 1.25);
  EXPECT_EQ(device.calls[1].seconds, device_.calls[1].seconds) << "the merge";
}

// FA2 starts a wave for the last few thread blocks: 256 on 132 multiprocessors are two waves.
TEST_F(ModelledKernelsTest, WavesThatAreNotFullCost) {
  const auto fa2 = kernels("modelled:fa2");
  begin(*fa2);
  fa2->forward(block(full_), partial_);
  EXPECT_DOUBLE_EQ(device_.calls[0].seconds,
                   4.0 * 128 * 32 * 1024 * (2048 + 75) / 376e12 * (2 * 132.0 / 256));
}

TEST_F(ModelledKernelsTest, OnlyTheFirstBlockOfAPassIsNotMerged) {
  const double elements = 1024 * 32 * 128;
  const auto eager = kernels("modelled:fa3"), fused = kernels("modelled:fa3+fused");
  for (int pass = 0; pass < 2; ++pass) {
    begin(*eager);
    for (int step = 0; step < 2; ++step) eager->forward(block(full_), partial_);
    EXPECT_DOUBLE_EQ(device_.calls[1].seconds, elements * 6 / kMemory);
    EXPECT_DOUBLE_EQ(device_.calls[3].seconds, elements * 38 / kMemory);
  }
  begin(*fused);
  for (int step = 0; step < 2; ++step) fused->forward(block(full_), partial_);
  EXPECT_DOUBLE_EQ(device_.calls[3].seconds, elements * 10 / kMemory);
}

TEST_F(ModelledKernelsTest, SomeOfTheRowsAreMergedAndCopiedBack) {
  const auto eager = kernels("modelled:fa3");
  begin(*eager);
  eager->forward(block(full_), partial_);
  eager->forward(block(half_), partial_);
  EXPECT_DOUBLE_EQ(device_.calls[3].seconds, 512.0 * 32 * 128 * 46 / kMemory);
}

// Five products: 2 (3 * 128 + 2 * 128) flops per pair; 610 TFLOP/s, 725 keys per row. Thread blocks
// are of keys: 32 * 16 = 512 on 132 multiprocessors are four waves.
TEST_F(ModelledKernelsTest, BackwardTakesTheTimeOfItsCurveAndAddsUp) {
  const auto fa3 = kernels("modelled:fa3");
  const TensorView row = view(DType::f32, kQueries, kHeads, 1);
  const TensorView dk = view(DType::f32, kKeys, kKvHeads, 128);
  device_.calls.clear();
  fa3->backward({q_, k_, v_, full_, {}, row, row, q_}, partial_.out, dk, dk);
  ASSERT_EQ(device_.calls.size(), 2u);
  EXPECT_DOUBLE_EQ(device_.calls[0].seconds,
                   1280.0 * 32 * 1024 * (2048 + 725) / 610e12 * (4 * 132.0 / 512));
  EXPECT_DOUBLE_EQ(device_.calls[1].seconds, 10.0 * (1024 * 32 * 128 + 2048 * 8 * 256) / kMemory);
}

TEST_F(ModelledKernelsTest, MovementTakesTheBytesReadAndWritten) {
  const TensorView narrow = view(DType::bf16, 10, 4, 64), wide = view(DType::f32, 10, 4, 64);
  for (const char* name : {"modelled:fa3", "null"}) {
    const auto some = kernels(name);
    device_.calls.clear();
    some->copy(narrow, wide);
    some->accumulate(wide, wide);
    some->fill(wide, 0);
    const std::vector<double> bytes{2560 * (2 + 4), 2560 * 12, 2560 * 4};
    ASSERT_EQ(device_.calls.size(), bytes.size()) << name;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_DOUBLE_EQ(device_.calls[i].seconds, bytes[i] / kMemory) << name;
    }
  }
}

TEST_F(ModelledKernelsTest, NullComputesNoAttention) {
  const auto null = kernels("null");
  begin(*null);
  null->forward(block(full_), partial_);
  null->merge(partial_, partial_);
  EXPECT_TRUE(device_.calls.empty());
}

TEST_F(ModelledKernelsTest, NothingVisibleTakesNoTime) {
  const auto fa3 = kernels("modelled:fa3");
  begin(*fa3);
  fa3->forward(block({}), partial_);
  EXPECT_TRUE(device_.calls.empty());
}

TEST_F(ModelledKernelsTest, TheUsualLibraryIsTheOneWrittenForTheGpu) {
  const auto usual = kernels("modelled"), fa3 = kernels("modelled:fa3");
  for (Kernels* some : {usual.get(), fa3.get()}) {
    begin(*some);
    some->forward(block(full_), partial_);
    EXPECT_DOUBLE_EQ(device_.calls[0].seconds, 4.0 * 128 * 32 * 1024 * (2048 + 75) / 690e12);
  }
}

// One object serves several plans, each of which prepares it for its own shape.
TEST_F(ModelledKernelsTest, EachBlockTakesTheTimeOfItsOwnShape) {
  const TensorView row = view(DType::f32, kQueries, kHeads, 1);
  const auto seconds = [&](Kernels& kernels, std::int64_t dim, std::int64_t value_dim) {
    const TensorView q = view(DType::bf16, kQueries, kHeads, dim);
    const TensorView k = view(DType::bf16, kKeys, kKvHeads, dim);
    const TensorView v = view(DType::bf16, kKeys, kKvHeads, value_dim);
    const TensorView out = view(DType::bf16, kQueries, kHeads, value_dim);
    device_.calls.clear();
    kernels.forward({q, k, v, full_, {}}, partial_);
    kernels.backward({q, k, v, full_, {}, row, row, out}, q, k, v);
    return std::pair(device_.calls[0].seconds, device_.calls[2].seconds);
  };
  const auto of_one = [&](std::int64_t dim, std::int64_t value_dim) {
    const auto alone = make_kernels("modelled:fa3", device_);
    alone->prepare({1, kHeads, kKvHeads, dim, value_dim, DType::bf16});
    return seconds(*alone, dim, value_dim);
  };
  const std::vector<std::pair<int, int>> dims{{128, 128}, {64, 64}, {96, 160}};
  const auto shared = make_kernels("modelled:fa3", device_);
  for (const auto& [dim, value_dim] : dims)
    shared->prepare({1, kHeads, kKvHeads, dim, value_dim, DType::bf16});
  for (const auto& [dim, value_dim] : dims) {
    EXPECT_EQ(seconds(*shared, dim, value_dim), of_one(dim, value_dim)) << dim << '/' << value_dim;
  }
  EXPECT_DOUBLE_EQ(of_one(96, 160).second / of_one(128, 128).second, 608.0 / 640);
}

TEST_F(ModelledKernelsTest, WhatHasNoCurveIsRefused) {
  const auto fa3 = make_kernels("modelled:fa3", device_),
             fa4 = make_kernels("modelled:fa4", device_);
  EXPECT_THROW(fa3->prepare({1, 32, 8, 128, 128, DType::f32}), Error);
  EXPECT_THROW(fa4->prepare({1, 32, 8, 128, 128, DType::bf16}), Error) << "fa4 is for B200";
}

}  // namespace
}  // namespace ringspan::attention
