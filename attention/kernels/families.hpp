// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "attention/kernels.hpp"
#include "attention/kernels/kernel_curves.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {

std::unique_ptr<Kernels> make_reference_kernels(comm::Device& device);
std::unique_ptr<Kernels> make_cpu_kernels(comm::Device& device);
std::unique_ptr<Kernels> make_reproducible_kernels(comm::Device& device);
std::unique_ptr<Kernels> make_cuda_kernels(comm::Device& device);
std::unique_ptr<Kernels> make_cudnn_kernels(comm::Device& device);
std::unique_ptr<Kernels> make_null_kernels(comm::Device& device);

/// Throws invalid_argument on a device whose memory kernels of the host cannot use.
inline void require_host_memory(std::string_view kernels, const comm::Device& device) {
  RINGSPAN_REQUIRE(device.host_reaches_memory(), "kernel '", kernels,
                   "' runs on the host, which does not reach memory of device '", device.name(),
                   "'");
}

/// Throws invalid_argument for shapes that ask for reproducible sums, which these kernels have not.
inline void require_plain_sums(std::string_view kernels, const Shape& shape) {
  RINGSPAN_REQUIRE(!shape.reproducible, "the ", kernels,
                   " kernels have no reproducible sums; choose the reproducible kernels");
}

/// On a simulated device alone. The usual ones are those of the library written for its GPU.
struct ModelledLibrary {
  KernelLibrary library;
  bool fused_merge = false;  // of a block into the partial result; else eager
};
std::unique_ptr<Kernels> make_modelled_kernels(comm::Device& device, ModelledLibrary library);
std::unique_ptr<Kernels> make_usual_kernels(comm::Device& device);

/// Null kernels on a simulated device: only movement takes time.
std::unique_ptr<Kernels> make_modelled_movement(comm::Device& device);

}  // namespace ringspan::attention
