// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "attention/tensor.hpp"
#include "comm/devices/cuda/device.hpp"

// What runs on a real GPU as well as on the emulated driver; scripts/gpu_check reads what it
// records.
namespace ringspan::gpu {

/// The first GPU. Throws not_available, with the reason, where there is none.
std::shared_ptr<const comm::cuda::Gpu> first_gpu();

/// Whether the driver is the one of tests/emulation: its times mean nothing, and sizes are small.
bool emulated(const comm::cuda::Gpu& gpu);

/// Why kernels of this family cannot be here: this build has none that run on a GPU, or there is no
/// cuDNN. Empty where they are to work, and whatever fails has failed.
std::string missing(const std::string& family);

/// Device memory with values of a fixed sequence, normal to look at and never denormal.
comm::Buffer filled(comm::cuda::CudaDevice& device, std::int64_t bytes, attention::DType dtype);

/// Seconds of one call, whose work is queued on the device: the median of several runs of as many
/// calls as take some tens of milliseconds, after a first one.
double seconds_of(comm::cuda::CudaDevice& device, const std::function<void()>& call);

/// A figure of the test that runs, for the table: its name ends in its unit.
void record(const std::string& figure, double value);

}  // namespace ringspan::gpu
