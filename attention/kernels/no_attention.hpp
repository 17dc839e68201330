// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels.hpp"

namespace ringspan::attention {

/// Leaves results as they were; subclasses say what moving data takes.
class NoAttention : public Kernels {
 public:
  void prepare(const Shape&) override {}
  std::int64_t workspace_bytes() const override { return 0; }

  void forward(const ForwardBlock&, const Partial&) override {}
  void backward(const BackwardBlock&, const TensorView&, const TensorView&,
                const TensorView&) override {}
  void delta(const ConstTensorView&, const ConstTensorView&, const ConstTensorView&,
             const ConstTensorView*, const TensorView&, const TensorView*) override {}
  void merge(const Partial&, const Partial&) override {}
  void finalize(const Partial&, const ConstTensorView*, const TensorView&,
                const TensorView&) override {}
};

}  // namespace ringspan::attention
