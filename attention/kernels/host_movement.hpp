// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/tensor.hpp"

// Kernels::copy, accumulate and fill for tensors in host memory, shared by the kernel families that
// run there.
namespace ringspan::attention {

void copy_on_host(const ConstTensorView& from, const TensorView& to);
void accumulate_on_host(const ConstTensorView& from, const TensorView& to);
void fill_on_host(const TensorView& to, double value);

}  // namespace ringspan::attention
