// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "attention/kernels.hpp"
#include "attention/kernels/cpu_panel.hpp"

namespace ringspan::attention::cpu {

/// Floats of workspace that backward() needs for these dimensions.
std::int64_t backward_workspace(const InstructionSet& set, std::int64_t head_dim,
                                std::int64_t value_dim);

/// Kernels::backward on valid arguments.
void backward(const InstructionSet& set, float* workspace, comm::Device& device,
              const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
              const TensorView& dv);

}  // namespace ringspan::attention::cpu
