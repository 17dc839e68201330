// SPDX-License-Identifier: Apache-2.0
#include "bench/oracle/input_values.hpp"

#include <vector>

#include "bench/random.hpp"

namespace ringspan::bench {

void InputValues::head(InputTensor tensor, std::int64_t batch, std::int64_t position,
                       std::int64_t head, std::int64_t head_dim, float* values) const {
  std::uint64_t place = random_bits(seed_, static_cast<std::uint64_t>(tensor));
  for (const std::int64_t index : {batch, head, position}) place = random_bits(place, index);
  for (std::int64_t d = 0; d < head_dim; ++d) {
    values[d] = static_cast<float>(random_below(255, place, d) - 127) / 64;
  }
}

void InputValues::fill(InputTensor tensor, const attention::Shard& shard,
                       attention::Kernels& kernels, const attention::TensorView& to) const {
  const std::vector<std::int64_t> positions = attention::positions(shard);
  std::vector<float> row(to.heads * to.head_dim);
  const auto staged = attention::ConstTensorView::packed(row.data(), attention::DType::f32, 1, 1,
                                                         to.heads, to.head_dim);
  for (std::int64_t b = 0; b < to.batch; ++b) {
    for (std::int64_t t = 0; t < to.tokens; ++t) {
      for (std::int64_t h = 0; h < to.heads; ++h) {
        head(tensor, b, positions[t], h, to.head_dim, &row[h * to.head_dim]);
      }
      attention::TensorView token = to.slice_tokens(t, 1);
      token.data = static_cast<std::byte*>(to.data) +
                   to.offset(b, t, 0) * attention::element_bytes(to.dtype);
      token.batch = 1;
      kernels.copy(staged, token);
    }
  }
}

}  // namespace ringspan::bench
