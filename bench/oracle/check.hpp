// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "attention/schedule.hpp"
#include "bench/oracle/row_oracle.hpp"
#include "comm/communicator.hpp"

namespace ringspan::bench {

/// What one rank holds after the passes that are to be checked. Without memory: not to be checked.
struct CheckedTensors {
  attention::ConstTensorView out, dq, dk, dv;
};

enum class ResultTensor { out, dq, dk, dv, dv_sum };

/// How far the results are from the oracle. Trivially copyable, so that ranks can gather it.
struct Deviation {
  // Of the value that strays furthest from its bound:
  ResultTensor tensor = ResultTensor::out;
  std::int64_t batch = 0, head = 0, position = 0, dimension = 0;
  double got = 0, expected = 0, bound = 0;
  double max_abs_error = 0;
  std::int64_t rows = 0;  // compared

  bool wrong() const;
  std::string text() const;
};

/// Compares the rows of a sample, the same on all ranks, that this rank holds. Rows of dk and dv
/// are compared where few enough queries see the key. `kernels` have computed them.
Deviation check_rows(const attention::Problem& problem, std::uint64_t seed,
                     const attention::Shard& shard, const CheckedTensors& tensors,
                     comm::Device& device, const attention::Kernels& kernels);

/// Rows that all ranks together must have compared.
std::int64_t sampled_rows(const attention::Problem& problem, std::uint64_t seed,
                          const CheckedTensors& tensors);

/// Keys among them. None where every key is seen by too many queries.
std::int64_t sampled_keys(const attention::Problem& problem, std::uint64_t seed);

/// Compares dv of one sampled KV head, summed over all keys, at any length: each query spreads its
/// d_out over the keys that it sees, with weights that add up to one, so the sum is that of d_out
/// over the queries that see something. Not with sinks, which take a share. Collective; the same on
/// all ranks.
Deviation check_dv_sum(const comm::Communicator& world, const attention::Problem& problem,
                       std::uint64_t seed, const attention::Shard& shard,
                       const attention::ConstTensorView& dv, const attention::Kernels& kernels);

/// Of all ranks: the furthest stray, the largest error, the sum of rows.
Deviation combined(const Deviation& a, const Deviation& b);

}  // namespace ringspan::bench
