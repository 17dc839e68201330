// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels.hpp"

// The members of Kernels that work on one row after the other, for fp32 partial results: plain
// loops that the compiler turns into vectors.
namespace ringspan::attention::cpu {

void merge(const Partial& into, const Partial& from);
void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
              const TensorView& lse);
void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
           const ConstTensorView* sinks, const TensorView& delta, const TensorView* d_sinks);

}  // namespace ringspan::attention::cpu
