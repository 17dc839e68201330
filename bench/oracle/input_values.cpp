// SPDX-License-Identifier: Apache-2.0
#include "bench/oracle/input_values.hpp"

#include <algorithm>
#include <vector>

#include "bench/random.hpp"

namespace ringspan::bench {
namespace {

constexpr std::int64_t kStaged = 1 << 20;  // values
constexpr double kFillDeadline = 60;       // seconds, of a copy

/// What the host writes and kernels of the device read. On the host it is not counted.
class Staging {
 public:
  Staging(comm::Device& device, std::int64_t values) {
    if (device.host_reaches_memory()) {
      own_.resize(values);
    } else {
      shared_ = device.allocate_values(values * static_cast<std::int64_t>(sizeof(float)));
    }
  }

  float* values() { return shared_ ? reinterpret_cast<float*>(shared_.data()) : own_.data(); }

 private:
  std::vector<float> own_;
  comm::Buffer shared_;
};

}  // namespace

void InputValues::head(InputTensor tensor, std::int64_t batch, std::int64_t position,
                       std::int64_t head, std::int64_t head_dim, float* values) const {
  std::uint64_t place = random_bits(seed_, static_cast<std::uint64_t>(tensor));
  for (const std::int64_t index : {batch, head, position}) place = random_bits(place, index);
  for (std::int64_t d = 0; d < head_dim; ++d) {
    values[d] = static_cast<float>(random_below(255, place, d) - 127) / 64;
  }
}

void InputValues::fill(InputTensor tensor, const attention::Shard& shard,
                       attention::Kernels& kernels, comm::Device& device,
                       const attention::TensorView& to) const {
  if (to.tokens == 0) return;
  const std::vector<std::int64_t> positions = attention::positions(shard);
  const std::int64_t row = to.heads * to.head_dim;
  // What the host waits for pays for many tokens at once.
  const bool waits = !device.host_reaches_memory();
  const std::int64_t at_once = waits ? std::clamp<std::int64_t>(kStaged / row, 1, to.tokens) : 1;
  Staging staging(device, at_once * row);
  for (std::int64_t b = 0; b < to.batch; ++b) {
    for (std::int64_t first = 0; first < to.tokens; first += at_once) {
      attention::TensorView tokens = to.slice_tokens(first, std::min(at_once, to.tokens - first));
      tokens.data = static_cast<std::byte*>(to.data) +
                    to.offset(b, first, 0) * attention::element_bytes(to.dtype);
      tokens.batch = 1;
      for (std::int64_t t = 0; t < tokens.tokens; ++t) {
        for (std::int64_t h = 0; h < to.heads; ++h) {
          head(tensor, b, positions[first + t], h, to.head_dim,
               staging.values() + t * row + h * to.head_dim);
        }
      }
      kernels.copy(attention::ConstTensorView::packed(staging.values(), attention::DType::f32, 1,
                                                      tokens.tokens, to.heads, to.head_dim),
                   tokens);
      device.synchronize(kFillDeadline);
      device.poll();  // a point that has been given up ends here
    }
  }
}

}  // namespace ringspan::bench
