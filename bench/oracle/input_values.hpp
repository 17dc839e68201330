// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "attention/kernels.hpp"
#include "attention/tensor.hpp"
#include "attention/token_layout.hpp"
#include "comm/device.hpp"

namespace ringspan::bench {

enum class InputTensor : std::uint64_t { q, k, v, d_out, sinks };

/// The values of the inputs as a function of their global place, so that any rank can compute any
/// of them. Multiples of 1/64 between -127/64 and 127/64: random enough for softmax, and exact in
/// every dtype.
class InputValues {
 public:
  static constexpr double kLargest = 127.0 / 64;

  explicit InputValues(std::uint64_t seed) : seed_(seed) {}

  /// head_dim values, of the token at this global position.
  void head(InputTensor tensor, std::int64_t batch, std::int64_t position, std::int64_t head,
            std::int64_t head_dim, float* values) const;

  /// A shard of the tensor in the dtype of `to`, in the memory of `device`; `kernels` convert. Ends
  /// when all is there.
  void fill(InputTensor tensor, const attention::Shard& shard, attention::Kernels& kernels,
            comm::Device& device, const attention::TensorView& to) const;

 private:
  std::uint64_t seed_;
};

}  // namespace ringspan::bench
