// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "attention/tensor.hpp"
#include "attention/tile.hpp"
#include "comm/device.hpp"

namespace ringspan::attention {

/// Shapes that every rank agrees on; tokens per rank come from the layout.
struct Shape {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;  // divides heads; query head h reads KV head h / (heads / kv_heads)
  std::int64_t head_dim = 64;
  std::int64_t value_dim = 64;
  DType dtype = DType::f32;
  /// Sums over pairs of tokens have the same bits in every order; for kernels that add up so.
  bool reproducible = false;
};

/// What sums over pairs of tokens are held in: partial results, dq, dk, dv and d_sinks until they
/// are complete. What belongs to one row, as lse and delta, is accumulator(shape.dtype).
constexpr DType accumulator(const Shape& shape) {
  return shape.reproducible ? DType::reproducible : accumulator(shape.dtype);
}

/// And the max of partial results.
constexpr DType max_dtype(const Shape& shape) {
  return shape.reproducible ? DType::f64 : accumulator(shape.dtype);
}

/// What happens to a logit q.k before the mask: s = scale * q.k, then cap * tanh(s / cap).
struct Logits {
  double scale = 1.0;
  std::optional<double> softcap = {};
};

/// Attention of some rows over the keys seen so far, not yet divided: with s2 = logit * log2(e),
/// max = max s2, sum = sum 2^(s2 - max), out = sum 2^(s2 - max) v, in accumulators.
/// identity: out 0, max -inf, sum 0. Kernels of other libraries, which return (out, lse), enter as
/// (out, lse * log2(e), 1). Base 2, because that is what the exponentials are computed in: a
/// conversion per hop would cost ulps of |lse|.
struct Partial {
  TensorView out;  // [batch][tokens][heads][value_dim]
  TensorView max;  // [batch][tokens][heads][1]
  TensorView sum;  // [batch][tokens][heads][1]
};

/// One rank's queries against one visiting block of keys and values.
struct ForwardBlock {
  ConstTensorView q;     // [batch][tokens][heads][head_dim]
  ConstTensorView k, v;  // [batch][key tokens][kv_heads][head_dim or value_dim]
  std::span<const Tile> tiles;
  Logits logits;
};

/// The same for the backward pass, with the lse and delta of the whole row, not of this block.
struct BackwardBlock {
  ConstTensorView q, k, v;
  std::span<const Tile> tiles;
  Logits logits;
  ConstTensorView lse;    // [batch][tokens][heads][1], natural log
  ConstTensorView delta;  // [batch][tokens][heads][1]
  ConstTensorView d_out;  // [batch][tokens][heads][value_dim]
};

class ScoreKernels;

/// Everything local: one object per rank, one class per device, so that a schedule has no loop over
/// data. Calls queue on the device in order. None allocates after prepare(); host implementations
/// call device.poll() between tiles. Accumulating calls only ever add. The exception is cudnn: the
/// first call with a tile of a new shape compiles, for seconds without a poll, and takes workspace.
/// It leaves the backward pass of fp16 to cuda: a tile's gradients may be beyond fp16.
class Kernels {
 public:
  virtual ~Kernels() = default;

  /// Reserves the workspace for this shape; throws invalid_argument for what the kernels cannot do.
  /// Cheap when repeated. Workspace is not counted by the device; workspace_bytes() tells it.
  virtual void prepare(const Shape& shape) = 0;
  virtual std::int64_t workspace_bytes() const = 0;
  /// Tiles that have been left to a vendor's attention so far, counted in each pass.
  virtual std::int64_t library_tiles() const { return 0; }
  /// Whether weights, and their gradients, are rounded to the dtype before they are multiplied, as
  /// tensor cores want them: two roundings that the results of other kernels do not have.
  virtual bool rounds_weights(const Shape&) const { return false; }
  /// Throws invalid_argument for logits that these kernels have no such thing as.
  virtual void require_possible(const Logits&) const {}

  /// Folds the block into `partial`; rows without visible keys stay bit-identical.
  virtual void forward(const ForwardBlock& block, const Partial& partial) = 0;

  /// Adds the block's share to dq, dk and dv, all in accumulator(shape). With p = exp(s - lse) and
  /// ds = p * (d_out.v - delta) * (1 - tanh^2 if capped):
  /// dq += scale * ds k, dk += scale * ds q, dv += p d_out.
  virtual void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                        const TensorView& dv) = 0;

  /// delta = rowsum(d_out * out), 0 for rows that saw nothing. With `sinks` (one logit per head,
  /// [1][1][heads][1]) also d_sinks[h] -= sum over rows of exp(sinks[h] - lse) * delta.
  virtual void delta(const ConstTensorView& out, const ConstTensorView& d_out,
                     const ConstTensorView& lse, const ConstTensorView* sinks,
                     const TensorView& delta, const TensorView* d_sinks) = 0;

  /// into = into merged with from; exact identity, max-shifted, finite for all finite inputs.
  virtual void merge(const Partial& into, const Partial& from) = 0;

  /// out = partial.out / sum (0 for rows that saw nothing), lse = ln sum exp(s) (-inf for them). A
  /// sink enters the sum here, once, of rows that saw something. lse may be empty (data ==
  /// nullptr).
  virtual void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
                        const TensorView& lse) = 0;

  /// to = from, converting dtype (to nearest even); strides may differ on the two sides.
  virtual void copy(const ConstTensorView& from, const TensorView& to) = 0;

  /// to += from, both in an accumulator dtype.
  virtual void accumulate(const ConstTensorView& from, const TensorView& to) = 0;

  virtual void fill(const TensorView& to, double value) = 0;

  /// The same attention with its scores in memory; null where there is none.
  virtual ScoreKernels* scores() { return nullptr; }
};

/// A kernel family that this build contains.
struct KernelFamily {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Kernels> (*make)(comm::Device&);
};

/// reference (slow, obvious, fp64 inside), reproducible (no sum has an order), cpu (SIMD), cuda (on
/// a GPU alone), null (moves data, computes no attention).
std::span<const KernelFamily> kernel_families();

/// On the simulated device: the virtual time of published kernels, without any data. There null
/// takes the time of movement alone.
std::span<const KernelFamily> modelled_kernel_families();

/// How fast the usual modelled kernel of a GPU (Gpu::kind of a cluster) works on long sequences
/// with a causal mask, over its speed without one; in 16 bits.
double causal_share_of_speed(std::string_view gpu_kind, bool backward, std::int64_t head_dim);

/// Attention of another kind, for any schedule, Ulysses above all: linear attention, with weights
/// scale * phi(q).phi(k), phi(x) = elu(x) + 1, in place of exp(scale * q.k). lse is the logarithm
/// of their sum. Host only; unlike the others it allocates host memory as it works.
std::unique_ptr<Kernels> make_linear_kernels(comm::Device& device);

/// Throws invalid_argument, listing the known names.
std::unique_ptr<Kernels> make_kernels(std::string_view name, comm::Device& device);

}  // namespace ringspan::attention
