// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ringspan::attention::cuda {

/// The GPUs that kernels were compiled for, such as "sm_80, sm_90"; empty if no CUDA toolkit was
/// found.
std::string_view kernel_targets();

/// The major version of CUDA that they were compiled by, which the driver must be for, too, or for
/// a later one; 0 if there are none.
int kernel_toolkit();

/// The kernels of movement.cu and of attention.cu for all GPUs, to be loaded by the driver; without
/// kernel_targets() empty texts, which no driver takes but the emulated one, whose kernels are its
/// own.
const void* movement_image();
const void* attention_image();

}  // namespace ringspan::attention::cuda
