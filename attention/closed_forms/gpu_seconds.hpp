// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "attention/kernels/families.hpp"
#include "attention/schedule.hpp"
#include "attention/tile.hpp"
#include "comm/cluster.hpp"

namespace ringspan::attention {

/// What the parts of a pass take on one GPU that has all heads of the problem, from its sizes. The
/// references outlive it.
class GpuSeconds {
 public:
  GpuSeconds(const Problem& problem, const comm::Cluster& cluster, const ModelledLibrary& library)
      : shape_(problem.shape), gpu_(cluster.gpu), library_(library) {}

  // Bytes of one token: of q, out, k and v together, in the problem's dtype; and accumulators.
  double q_bytes() const { return element() * query_elements(shape_.head_dim); }
  double out_bytes() const { return element() * query_elements(shape_.value_dim); }
  double kv_bytes() const { return element() * kv_elements(); }
  double q_gradient_bytes() const { return kAccumulator * query_elements(shape_.head_dim); }
  double kv_gradient_bytes() const { return kAccumulator * kv_elements(); }

  double moved(double bytes) const { return bytes / gpu_.memory_bytes_per_second; }
  double copied(double bytes) const { return moved(2 * bytes); }

  // Forward: the identity, out, max and sum in fp32, is filled in; a block is attended to, and
  // merged; the partial result is read, and out written.
  double begin(std::int64_t tokens) const {
    return moved(static_cast<double>(tokens) * kAccumulator * query_elements(shape_.value_dim + 2));
  }
  double attend(std::span<const Tile> tiles, std::int64_t tokens, std::int64_t keys,
                bool first) const;
  double end(std::int64_t tokens) const {
    return begin(tokens) + moved(static_cast<double>(tokens) * out_bytes());
  }

  // Backward: delta, from out, d_out and lse; a block is differentiated, and dq, dk and dv added.
  double delta(std::int64_t tokens) const {
    return moved(static_cast<double>(tokens) *
                 (2 * out_bytes() + 2 * kAccumulator * query_elements(1)));
  }
  double differentiate(std::span<const Tile> tiles, std::int64_t keys) const;

 private:
  static constexpr double kAccumulator = 4;  // bytes

  double element() const { return static_cast<double>(element_bytes(shape_.dtype)); }
  double query_elements(std::int64_t dim) const {
    return static_cast<double>(shape_.batch * shape_.heads * dim);
  }
  double kv_elements() const {
    return static_cast<double>(shape_.batch * shape_.kv_heads *
                               (shape_.head_dim + shape_.value_dim));
  }
  double kernel(KernelPass pass, std::span<const Tile> tiles, double flops_per_pair,
                std::int64_t rows) const;

  const Shape& shape_;
  const comm::Gpu& gpu_;
  const ModelledLibrary& library_;
};

/// So many messages of so many bytes at once into and out of each port, in a group of so many ranks
/// on one switch.
double message_seconds(const comm::Cluster& cluster, int ranks, int at_once, double bytes);

}  // namespace ringspan::attention
