// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// What the kernels ask of a GPU: intrinsics and PTX (sm_80 and newer) when nvcc compiles them; when
// a C++ compiler does, functions with the same layouts of registers, which whoever runs the kernels
// on a host supplies. Blocks and grids are numbered along x, y and z; threads along x alone.
#ifdef __CUDACC__
#define RINGSPAN_DEVICE __device__ __forceinline__
#define RINGSPAN_UNROLL _Pragma("unroll")
#else
#define RINGSPAN_DEVICE inline
#define RINGSPAN_UNROLL
#endif

namespace ringspan::attention::cuda {

struct Index3 {
  unsigned x, y, z;
};

/// The two 16-bit types that tensor cores multiply.
enum class Half { bf16, f16 };

#ifdef __CUDACC__

RINGSPAN_DEVICE unsigned thread_index() { return threadIdx.x; }
RINGSPAN_DEVICE Index3 block_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }

/// The dynamic shared memory of the block, aligned to 16 bytes.
RINGSPAN_DEVICE std::byte* shared_memory() {
  extern __shared__ uint4 memory[];
  return reinterpret_cast<std::byte*>(memory);
}

RINGSPAN_DEVICE void sync_threads() { __syncthreads(); }
RINGSPAN_DEVICE void sync_warp() { __syncwarp(); }
RINGSPAN_DEVICE float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
RINGSPAN_DEVICE float atomic_add(float* to, float value) { return atomicAdd(to, value); }

/// Starts a copy of 16 bytes into shared memory; of zeros if not `present`, and then `from` is not
/// read. Both addresses are multiples of 16.
RINGSPAN_DEVICE void copy_async(void* to, const void* from, bool present) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
}
/// Closes the group of copies that this thread has started since the last one.
RINGSPAN_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most kPending of this thread's latest groups are not complete.
template <int kPending>
RINGSPAN_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Four 8x8 matrices of 16-bit elements. Lane 8m + r has the address of row r of matrix m; of
/// matrix m lane l receives elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4.
RINGSPAN_DEVICE void load_matrices(const void* row, std::uint32_t (&to)[4]) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
/// The same of the transposed matrices.
RINGSPAN_DEVICE void load_transposed(const void* row, std::uint32_t (&to)[4]) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

/// c += a b, of 16x16 and 16x8 elements; products and sums in fp32. With g = lane / 4 and
/// t = lane % 4, a is at (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8) and their right
/// neighbours, b at (2t, g), (2t + 8, g) and their lower ones, c at (g, 2t), (g, 2t + 1),
/// (g + 8, 2t), (g + 8, 2t + 1).
template <Half kHalf>
RINGSPAN_DEVICE void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1) {
  if constexpr (kHalf == Half::bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Two numbers rounded to nearest, `low` in the lower half.
template <Half kHalf>
RINGSPAN_DEVICE std::uint32_t pack(float low, float high) {
  std::uint32_t packed;
  if constexpr (kHalf == Half::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

#else

unsigned thread_index();
Index3 block_index();
std::byte* shared_memory();
void sync_threads();
void sync_warp();
float shuffle_xor(float value, int mask);
float atomic_add(float* to, float value);

void copy_async(void* to, const void* from, bool present);
void commit_copies();
void wait_copies(int pending);
template <int kPending>
void wait_copies() {
  wait_copies(kPending);
}

void load_matrices(const void* row, std::uint32_t (&to)[4]);
void load_transposed(const void* row, std::uint32_t (&to)[4]);
template <Half kHalf>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
template <Half kHalf>
std::uint32_t pack(float low, float high);

#endif

}  // namespace ringspan::attention::cuda
