// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/score_kernels.hpp"
#include "comm/cluster.hpp"
#include "comm/device.hpp"

namespace ringspan::attention {

/// Virtual time of attention whose scores are in memory: each matrix product is of a whole block,
/// however little the mask shows of it (none if nothing), and takes the longer of its
/// multiplications, at the GPU's peak, and of what it reads and writes. An assumption: nothing
/// published says what it took.
class ModelledScores final : public ScoreKernels {
 public:
  ModelledScores(comm::Device& device, const comm::Gpu& gpu) : device_(device), gpu_(gpu) {}

  void prepare(const Shape&) override {}
  void scores(const ForwardBlock& block, const TensorView& scores) override;
  void max_rows(const ConstTensorView& scores, const Partial& partial) override;
  void weigh(const ConstTensorView& scores, const ForwardBlock& block,
             const Partial& partial) override;
  void backward_values(const ConstTensorView& scores, const BackwardBlock& block,
                       const TensorView& dv, const TensorView& d_scores) override;
  void backward_keys(const ConstTensorView& d_scores, const BackwardBlock& block,
                     const TensorView& dq, const TensorView& dk) override;

 private:
  void compute(std::int64_t products, std::int64_t bytes, std::string_view kernel);

  comm::Device& device_;
  const comm::Gpu& gpu_;
};

}  // namespace ringspan::attention
