// SPDX-License-Identifier: Apache-2.0
// Every operator new of this executable is counted.
#include <atomic>
#include <cstdlib>
#include <new>

#include "attention/kernels.hpp"
#include "comm/devices/host.hpp"
#include "gtest/gtest.h"

namespace {

std::atomic<int> allocations{0};

void* counted(std::size_t bytes) {
  ++allocations;
  return std::malloc(bytes > 0 ? bytes : 1);
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* memory = counted(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ringspan::attention {
namespace {

TEST(CpuKernelAllocationTest, WorkspaceIsReservedInPrepareAndNothingLater) {
  const auto device = comm::make_host_device();
  const auto kernels = make_kernels("cpu", *device);
  const Shape shape{.heads = 2, .head_dim = 20, .value_dim = 12, .dtype = DType::bf16};
  const int unprepared = allocations;
  EXPECT_EQ(kernels->workspace_bytes(), 0);
  kernels->prepare(shape);
  const std::int64_t workspace = kernels->workspace_bytes();
  EXPECT_GT(workspace, 0);

  const auto tensor = [&](DType dtype, std::int64_t heads, std::int64_t dim) {
    const Tensor made(*device, dtype, 1, 100, heads, dim);
    kernels->fill(made, 0.5);
    return made;
  };
  const Tensor q = tensor(DType::bf16, 2, 20), k = tensor(DType::bf16, 1, 20);
  const Tensor v = tensor(DType::bf16, 1, 12), d_out = tensor(DType::bf16, 2, 12);
  const Tensor out = tensor(DType::bf16, 2, 12), lse = tensor(DType::f32, 2, 1);
  const Tensor delta = tensor(DType::f32, 2, 1), dq = tensor(DType::f32, 2, 20);
  const Tensor dk = tensor(DType::f32, 1, 20), dv = tensor(DType::f32, 1, 12);
  const Tensor partial_out = tensor(DType::f32, 2, 12), max = tensor(DType::f32, 2, 1);
  const Tensor sum = tensor(DType::f32, 2, 1);
  const Partial partial{partial_out, max, sum};
  const Tile tiles[] = {{{0, 1, 100}, {0, 1, 100}, -99, 0}};
  const Logits logits{.scale = 0.1, .softcap = 3.0};
  EXPECT_GT(allocations, unprepared);  // so they are counted

  const int before = allocations;
  kernels->forward({q, k, v, tiles, logits}, partial);
  kernels->merge(partial, partial);
  kernels->finalize(partial, nullptr, out, lse);
  kernels->delta(out, d_out, lse, nullptr, delta, nullptr);
  kernels->backward({q, k, v, tiles, logits, lse, delta, d_out}, dq, dk, dv);
  kernels->prepare(shape);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(kernels->workspace_bytes(), workspace);
}

}  // namespace
}  // namespace ringspan::attention
