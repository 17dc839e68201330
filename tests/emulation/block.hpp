// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "attention/kernels/cuda/warp.cuh"

namespace ringspan::emulation {

/// Runs a kernel on the host: `kernel` once per thread of each block, as a fiber, one block after
/// the other, on the calling thread; several threads may launch at once. What
/// attention/kernels/cuda/warp.cuh declares has its meaning inside. Shared memory starts as 0xff
/// bytes, NaN in every type, and asynchronous copies arrive no sooner than they are waited for.
/// Barriers and operations of a warp are collective: where some threads are at one and the others
/// have ended, or are at another one, no more threads run and std::runtime_error says who is
/// where. Destructors of what the threads then hold do not run. What a thread throws, launch
/// throws.
void launch(attention::cuda::Index3 grid, unsigned threads, std::size_t shared_bytes,
            const std::function<void()>& kernel);

}  // namespace ringspan::emulation
