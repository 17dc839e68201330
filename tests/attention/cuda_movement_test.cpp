// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cmath>
#include <optional>

#include "attention/kernels.hpp"
#include "attention/kernels/cuda/device_movement.hpp"
#include "attention/kernels/cuda/image.hpp"
#include "attention/kernels/cuda/movement.hpp"
#include "comm/devices/cuda/graph.hpp"
#include "comm/devices/cuda/reachable_memory.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/array.hpp"
#include "tests/gpu/gpu.hpp"

namespace ringspan::attention::cuda {
namespace {

constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
constexpr DType bf16 = DType::bf16;
constexpr double kDeadline = 30, kInfinity = std::numeric_limits<double>::infinity();

using Fail = void (*)(const char* call, int skip, int times, int status);

/// Of the emulated driver alone; null on a real one.
Fail find_emulation_fail() {
  return reinterpret_cast<Fail>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "emulation_fail"));
}

/// On a GPU with memory that the host reads once the device has been waited for.
class CudaMovementTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = gpu::missing("cuda");
    if (!reason.empty()) GTEST_SKIP() << reason;
    movement_.emplace(device_);
  }

  Array read_back(const ConstTensorView& view) {
    device_.synchronize(kDeadline);
    return read(view);
  }

  /// In memory that lives as long as the test.
  TensorView make_kept(const Array& values, DType dtype) {
    return kept_.emplace_back(make_tensor(device_, values, dtype));
  }

  const std::shared_ptr<const comm::cuda::Gpu> gpu_ = gpu::first_gpu();
  comm::cuda::CudaDevice device_{gpu_, {.allocator = comm::cuda::reachable_memory(gpu_)}};
  std::optional<DeviceMovement> movement_;
  const Fail emulation_fail_ = find_emulation_fail();
  std::vector<Tensor> kept_;
};

/// With a gap behind every row, tokens and heads exchanged.
TensorView heads_first(void* data, DType dtype, const Array& a, std::int64_t gap) {
  TensorView view{data, dtype, a.batch, a.tokens, a.heads, a.dim};
  view.token_stride = a.dim + gap;
  view.head_stride = a.tokens * view.token_stride;
  view.batch_stride = a.heads * view.head_stride;
  return view;
}

TEST_F(CudaMovementTest, CopiesBetweenAllDtypesStridesAndAlignments) {
  for (const std::int64_t dim : {6, 16}) {
    const Array values = random_array(2, 5, 3, dim, DType::f64, 1);
    for (const DType from : kDTypes) {
      const Tensor source = make_tensor(device_, values, from);
      for (const DType to : kDTypes) {
        const Array expected = read(make_tensor(device_, read(source), to));
        for (const std::int64_t first : {0, 1}) {  // elements before the view
          const std::int64_t gap = dim == 16 ? 8 : 3;
          const comm::Buffer memory =
              device_.allocate((first + 2 * 5 * 3 * (dim + gap)) * element_bytes(to));
          const TensorView strided =
              heads_first(memory.data() + first * element_bytes(to), to, values, gap);
          movement_->copy(source, strided);
          EXPECT_TRUE(same_bits("strided", read_back(strided), expected));
          const Tensor packed(device_, to, 2, 5, 3, dim);
          movement_->copy(strided, packed);
          EXPECT_TRUE(same_bits("packed", read_back(packed), expected));
        }
      }
    }
  }
}

TEST_F(CudaMovementTest, FillsAndAccumulatesInOrder) {
  for (const DType dtype : {DType::f64, DType::f32, bf16}) {
    for (const std::int64_t dim : {1, 7, 16}) {
      const Array values = random_array(2, 3, 4, dim, dtype, 2);
      const Tensor from = make_tensor(device_, values, dtype),
                   to(device_, accumulator(dtype), 2, 3, 4, dim);
      movement_->fill(to, 0.5);
      movement_->accumulate(from, to);
      movement_->accumulate(from, to);
      const Array sums = read_back(to);
      for (std::size_t i = 0; i < sums.values.size(); ++i) {
        const double x = values.values[i];
        const double sum =
            dtype == DType::f64 ? 0.5 + x + x : static_cast<float>(static_cast<float>(0.5 + x) + x);
        EXPECT_EQ(sums.values[i], sum);
      }
    }
  }
}

TEST_F(CudaMovementTest, LeavesGapsAndNeighboursAlone) {
  const Array shape(1, 3, 2, 8);
  const Tensor whole(device_, DType::bf16, 1, 6, 2, 16);
  movement_->fill(whole, 1);
  TensorView part = heads_first(whole.view().data, DType::bf16, shape, 8);
  movement_->fill(part, 2);
  double sum = 0;
  for (const double x : read_back(whole).values) sum += x;
  EXPECT_EQ(sum, 6 * 2 * 16 + 3 * 2 * 8);
}

/// Two partial results of rows: max and sum per row, out = weight.
TEST_F(CudaMovementTest, MergesRowsWithTheirOldMaxAndLeavesIdentitiesAlone) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const std::int64_t dim : {5, 16}) {
      Array max(1, 4, 1, 1), other_max(1, 4, 1, 1);
      max.values = {3, -kInfinity, 2, -kInfinity};
      other_max.values = {5, 1, -kInfinity, -kInfinity};
      const auto partial = [&](const Array& row_max, double out, double sum) {
        return Partial{make_kept(Array(1, 4, 1, dim, out), dtype), make_kept(row_max, dtype),
                       make_kept(Array(1, 4, 1, 1, sum), dtype)};
      };
      const Partial into = partial(max, 0, 2), from = partial(other_max, 8, 3);
      movement_->merge(into, from);
      const Array merged_max = read_back(into.max), sum = read(into.sum), out = read(into.out);
      EXPECT_THAT(merged_max.values, testing::ElementsAre(5, 1, 2, -kInfinity));
      EXPECT_THAT(sum.values, testing::ElementsAre(2 * 0.25 + 3, 3, 2, 2));
      EXPECT_EQ(out.row(0, 0, 0)[dim - 1], 8);
      EXPECT_EQ(out.row(0, 1, 0)[dim - 1], 8);
      EXPECT_EQ(out.row(0, 2, 0)[dim - 1], 0);
      EXPECT_EQ(out.row(0, 3, 0)[0], 0);
    }
  }
}

// The product is right but for the rounding of one element; also of tiny gradients, of rows that
// saw nothing, and of padding.
TEST_F(CudaMovementTest, ProjectsOutOnItsGradient) {
  const Array all = random_array(2, 6, 3, 16, bf16, 3);
  for (const double unit : {1.0, 0x1p-10, 0x1p-90}) {
    Array d_out = all, delta = random_array(2, 6, 3, 1, DType::f32, 4), lse = delta;
    for (double& x : d_out.values) x *= unit;
    for (double& x : delta.values) x *= unit;
    lse.row(1, 5, 2)[0] = -kInfinity;
    delta.row(1, 5, 2)[0] = 0;
    d_out.row(1, 5, 2)[3] = std::nan("");
    for (int d = 0; d < 16; ++d) d_out.row(0, 2, 1)[d] = 0;
    delta.row(0, 2, 1)[0] = 0;
    const Tensor to(device_, bf16, 2, 6, 3, 16), statistics(device_, DType::f32, 2, 6, 3, 1);
    const TensorView given = make_kept(d_out, bf16);
    movement_->project(given, make_kept(delta, DType::f32), make_kept(lse, DType::f32), to,
                       statistics);
    const Array out = read_back(to), kept = read(statistics), d_out_stored = read(given);
    for (std::int64_t row = 0; row < 2 * 6 * 3; ++row) {
      const std::int64_t b = row / 18, t = row / 3 % 6, h = row % 3;
      const bool saw_any = lse.row(b, t, h)[0] != -kInfinity;
      EXPECT_EQ(kept.row(b, t, h)[0], saw_any ? lse.row(b, t, h)[0] : 0);
      double product = 0, sum = 0, largest = 0;
      for (int d = 0; d < 16; ++d) {
        const double x = saw_any ? d_out_stored.row(b, t, h)[d] : 1;
        product += out.row(b, t, h)[d] * x;
        sum += std::abs(x), largest = std::max(largest, std::abs(x));
      }
      const double wanted = delta.row(b, t, h)[0], part = sum > 0 ? largest / sum : 1;
      EXPECT_NEAR(product, wanted, std::abs(wanted) * (part * half_ulp(bf16) * 1.02 + 0x1p-21));
    }
  }
}

// One large element of d_out among many does not make `to` larger than out, all 20,000, was.
TEST_F(CudaMovementTest, ProjectsToNoLargerElementsThanOutHas) {
  constexpr double kOut = 20'000;
  Array d_out(1, 1, 1, 128, 1), lse(1, 1, 1, 1), delta(1, 1, 1, 1);
  for (const int place : {0, 64, 127}) {
    for (double& x : d_out.values) x = 1;
    d_out.values[place] = 11;
    delta.values[0] = kOut * (11 + 127);
    const Tensor to(device_, bf16, 1, 1, 1, 128), statistics(device_, DType::f32, 1, 1, 1, 1);
    movement_->project(make_kept(d_out, bf16), make_kept(delta, DType::f32),
                       make_kept(lse, DType::f32), to, statistics);
    double product = 0;
    const Array out = read_back(to);
    for (int d = 0; d < 128; ++d) {
      product += out.values[d] * d_out.values[d];
      EXPECT_LE(std::abs(out.values[d]), kOut * (1 + half_ulp(bf16) * 4));
    }
    EXPECT_NEAR(product, delta.values[0], kOut * 11 * half_ulp(bf16) * 1.02);
  }
}

TEST_F(CudaMovementTest, AGraphMovesWhenItIsLaunchedAndEveryTime) {
  const Tensor from(device_, DType::f32, 1, 2, 1, 4), to(device_, DType::f32, 1, 2, 1, 4);
  movement_->fill(from, 1);
  movement_->fill(to, 0);
  comm::cuda::Graph graph(device_, [&] {
    movement_->accumulate(from, to);
    movement_->accumulate(to, to);
  });
  EXPECT_THAT(read_back(to).values, testing::Each(0));
  graph.launch();
  graph.launch();
  EXPECT_THAT(read_back(to).values, testing::Each(6));
}

TEST_F(CudaMovementTest, WhatFailsInAGraphLeavesTheStreamUsable) {
  const Tensor to(device_, DType::f32, 1, 1, 1, 1);
  movement_->fill(to, 1);
  const auto fails = [&] {
    movement_->fill(to, 2);
    throw Error(ErrorKind::invalid_argument, "no more of it");
  };
  EXPECT_THROW(comm::cuda::Graph(device_, fails), Error);
  if (emulation_fail_) {
    emulation_fail_("cuGraphInstantiateWithFlags", 0, 1, 2);
    EXPECT_THROW(comm::cuda::Graph(device_, [&] { movement_->fill(to, 3); }), Error);
  }
  EXPECT_THAT(read_back(to).values, testing::Each(1));
  comm::cuda::CudaDevice blocking(device_.compute().shared_gpu(), {.blocking = true});
  EXPECT_THROW(comm::cuda::Graph(blocking, [] {}), Error);
}

TEST_F(CudaMovementTest, IsWhatTheNullKernelMovesWith) {
  comm::cuda::CudaDevice device(gpu::first_gpu(), comm::cuda::DeviceOptions{});  // its own memory
  const Tensor filled(device, DType::f32, 1, 2, 1, 4);
  make_kernels("null", device)->fill(filled, 2.5);
  const comm::Buffer values = device.allocate_values(filled.buffer().bytes());
  device.copy(whole(values), whole(filled.buffer()));
  device.synchronize(kDeadline);
  const auto seen = TensorView::packed(values.data(), DType::f32, 1, 2, 1, 4);
  EXPECT_THAT(read(seen).values, testing::Each(2.5));
}

TEST_F(CudaMovementTest, TellsKernelsThatAreMissingFromThoseThatFailToLoad) {
  if (!emulation_fail_) GTEST_SKIP() << "a real driver does not fail at will";
  constexpr int kOutOfMemory = 2;
  for (const int status :
       {comm::cuda::kErrorInvalidImage, comm::cuda::kErrorNoBinary, comm::cuda::kErrorInvalidPtx,
        comm::cuda::kErrorNewerPtx, kOutOfMemory}) {
    emulation_fail_("cuModuleLoadData", 0, 1, status);
    try {
      const DeviceMovement movement(device_);
      ADD_FAILURE() << "loaded in spite of " << status;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), status == kOutOfMemory ? ErrorKind::system : ErrorKind::not_available)
          << status << ": " << error.what();
    }
  }
}

TEST_F(CudaMovementTest, NamesTheDriverThatTheKernelsOfABuildNeed) {
  if (!emulation_fail_) GTEST_SKIP() << "a real driver is as old as it is";
  if (kernel_toolkit() == 0) GTEST_SKIP() << "this build has no kernels";
  emulation_fail_("cuModuleLoadData", 0, 1, comm::cuda::kErrorNoBinary);
  emulation_fail_("driverVersion", 0, 1, 11080);
  EXPECT_THAT([&] { DeviceMovement movement(device_); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  concat("are by CUDA ", kernel_toolkit(),
                         ", and need a driver for that; this one is for CUDA 11.8"))));
}

TEST_F(CudaMovementTest, WorkspaceIsNotCounted) {
  const comm::MemoryUse before = device_.memory();
  {
    const comm::Buffer workspace = device_.allocate_workspace(1000);
    EXPECT_EQ(workspace.bytes(), 1000);
    EXPECT_EQ(device_.memory().current, before.current);
  }
  EXPECT_EQ(device_.memory().current, before.current);
  EXPECT_EQ(device_.memory().peak, before.peak);
}

TEST_F(CudaMovementTest, RefusesWhatItCannotMove) {
  const Tensor a(device_, DType::f32, 1, 2, 1, 4), b(device_, DType::f32, 1, 3, 1, 4);
  const Tensor half(device_, DType::bf16, 1, 2, 1, 4);
  EXPECT_THROW(movement_->copy(a, b), Error);
  EXPECT_THROW(movement_->accumulate(half, half), Error);
  EXPECT_THROW(movement_->accumulate(half, Tensor(device_, DType::f64, 1, 2, 1, 4)), Error);
  EXPECT_THROW(movement_->fill(Tensor(device_, DType::reproducible, 1, 1, 1, 1), 0), Error);
  const Tensor row(device_, DType::f32, 1, 2, 1, 1);
  EXPECT_THROW(movement_->project(half, row, row, a, row), Error);
  EXPECT_THROW(movement_->project(half, row, half, half, row), Error);
  const Tensor fp16(device_, DType::f16, 1, 2, 1, 4);
  EXPECT_THROW(movement_->project(fp16, row, row, fp16, row), Error);
}

}  // namespace
}  // namespace ringspan::attention::cuda
