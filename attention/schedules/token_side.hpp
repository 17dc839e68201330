// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels.hpp"
#include "attention/schedule.hpp"
#include "attention/schedules/row_exchange.hpp"
#include "attention/schedules/ulysses_cut.hpp"

namespace ringspan::attention {

/// One group's rows on the token side of an all-to-all, from the caller's tensors and back to them.
class TokenSide {
 public:
  TokenSide(Kernels& kernels, const UlyssesCut& cut, int group, const RowExchange& exchange)
      : kernels_(kernels), cut_(cut), group_(group), exchange_(exchange) {}

  void pack_qkv(const Inputs& inputs) const;
  void pack_out(const ConstTensorView& out) const;
  void unpack_out(const TensorView& out) const;
  /// The gradients of copied KV heads are summed.
  void unpack(const Gradients& gradients) const;

 private:
  void sum_copies() const;
  template <typename Each>
  void for_each_run_of_heads(DType dtype, std::int64_t value_dim, const Each& each) const;

  Kernels& kernels_;
  const UlyssesCut& cut_;
  int group_;
  const RowExchange& exchange_;
};

}  // namespace ringspan::attention
