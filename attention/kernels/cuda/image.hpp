// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringspan::attention::cuda {

/// Whether a CUDA toolkit was found when this was built.
bool has_kernels();

/// The kernels for all GPUs, to be loaded by the driver; without has_kernels() an empty text, which
/// no driver takes but the emulated one, whose kernels are its own.
const void* kernel_image();

}  // namespace ringspan::attention::cuda
