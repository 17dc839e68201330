// SPDX-License-Identifier: Apache-2.0
#include "model/layers/dropout.hpp"

#include "model/random.hpp"

namespace ringspan::model {

void drop(const Matrix& x, const Tokens& tokens, std::int64_t first_row, const DropoutKey& key) {
  if (key.rate == 0) return;
  const std::uint64_t of_site = random_bits(random_bits(key.seed, key.step), key.site);
  with_real(x.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const auto scale = static_cast<Real>(1 / (1 - key.rate));
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      const std::uint64_t of_sample = random_bits(of_site, tokens.samples[first_row + row]);
      const std::uint64_t of_token = random_bits(of_sample, tokens.places[first_row + row]);
      Real* const values = x.data<Real>(row);
      for (std::int64_t i = 0; i < x.columns(); ++i) {
        values[i] = random_fraction(of_token, i) < key.rate ? Real{0} : values[i] * scale;
      }
    }
  });
}

Matrix drop_gradient(comm::Device& device, const Matrix& d_y, const Tokens& tokens,
                     std::int64_t first_row, const DropoutKey& key) {
  if (key.rate == 0) return d_y;
  const Matrix dropped = like(device, d_y);
  device.copy(dropped.slice(), d_y.slice());
  drop(dropped, tokens, first_row, key);
  return dropped;
}

}  // namespace ringspan::model
