// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/score_kernels.hpp"

namespace ringspan::attention {

/// Leaves results as they were.
class NoScores final : public ScoreKernels {
 public:
  void prepare(const Shape&) override {}
  void scores(const ForwardBlock&, const TensorView&) override {}
  void max_rows(const ConstTensorView&, const Partial&) override {}
  void weigh(const ConstTensorView&, const ForwardBlock&, const Partial&) override {}
  void backward_values(const ConstTensorView&, const BackwardBlock&, const TensorView&,
                       const TensorView&) override {}
  void backward_keys(const ConstTensorView&, const BackwardBlock&, const TensorView&,
                     const TensorView&) override {}
};

/// Leaves results as they were; `Base`, or subclasses, say what moving data takes.
template <typename Base>
class NoAttention : public Base {
 public:
  using Base::Base;

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

  ScoreKernels* scores() override { return &no_scores_; }

 private:
  NoScores no_scores_;
};

}  // namespace ringspan::attention
