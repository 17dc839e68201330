// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "attention/kernels.hpp"

namespace ringspan::attention {

std::unique_ptr<Kernels> make_reference_kernels(comm::Device& device);
std::unique_ptr<Kernels> make_cpu_kernels(comm::Device& device);
std::unique_ptr<Kernels> make_null_kernels(comm::Device& device);

}  // namespace ringspan::attention
