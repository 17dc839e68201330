// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ringspan::attention::cuda {

/// The GPUs that kernels were compiled for, such as "sm_80, sm_90"; empty if no CUDA toolkit was
/// found.
std::string_view kernel_targets();

/// The kernels for all GPUs, to be loaded by the driver; without kernel_targets() an empty text,
/// which no driver takes but the emulated one, whose kernels are its own.
const void* kernel_image();

}  // namespace ringspan::attention::cuda
