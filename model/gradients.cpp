// SPDX-License-Identifier: Apache-2.0
#include "model/gradients.hpp"

#include <cstring>
#include <vector>

#include "comm/collectives.hpp"
#include "model/random.hpp"

namespace ringspan::model {
namespace {

comm::Slice replicated(const Matrix& all, const Parameters& parameters) {
  const std::int64_t width = attention::element_bytes(all.dtype());
  const Part part = parameters.replicated();
  const comm::Slice whole = all.slice();
  return comm::slice(whole.buffer, whole.offset + part.first * width, part.count * width);
}

/// Depends on every bit and its place.
std::uint64_t fingerprint(const comm::Slice& slice) {
  std::uint64_t bits = 0;
  for (std::int64_t at = 0; at < slice.bytes(); at += 4) {
    std::uint32_t word;
    std::memcpy(&word, slice.data() + at, sizeof word);
    bits = random_bits(bits, word);
  }
  return bits;
}

void require_equal(const comm::Communicator& group, const comm::Slice& values) {
  const std::vector<std::uint64_t> all = comm::all_gather_values(group, fingerprint(values));
  for (int rank = 1; rank < group.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw Error(ErrorKind::system,
                concat("parameters of rank ", group.world_rank(rank), " are not those of rank ",
                       group.world_rank(0), ", bit for bit"));
  }
}

}  // namespace

void reduce_gradients(const Mesh& mesh, const LossSum& total, Parameters& parameters) {
  const Matrix& gradients = parameters.gradients();
  const comm::Element type = attention::element(gradients.dtype());
  comm::all_reduce(mesh.gradient(), gradients.slice(), type);
  comm::all_reduce(mesh.tensor(), replicated(gradients, parameters), type);
  with_real(gradients.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const auto scale = static_cast<Real>(total.per_token());
    Real* const values = gradients.data<Real>();
    for (std::int64_t i = 0; i < gradients.elements(); ++i) values[i] *= scale;
  });
}

void require_equal_parameters(const Mesh& mesh, const Parameters& parameters) {
  require_equal(mesh.gradient(), parameters.values().slice());
  require_equal(mesh.tensor(), replicated(parameters.values(), parameters));
}

}  // namespace ringspan::model
