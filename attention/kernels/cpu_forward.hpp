// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "attention/kernels.hpp"
#include "attention/kernels/cpu_panel.hpp"

namespace ringspan::attention::cpu {

/// Floats of workspace that forward() needs for these dimensions.
std::int64_t forward_workspace(const InstructionSet& set, std::int64_t head_dim,
                               std::int64_t value_dim);

/// Kernels::forward on valid arguments.
void forward(const InstructionSet& set, float* workspace, comm::Device& device,
             const ForwardBlock& block, const Partial& partial);

}  // namespace ringspan::attention::cpu
