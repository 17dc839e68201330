// SPDX-License-Identifier: Apache-2.0
// Kernels without data: each call queues the virtual time that it would take on a GPU of the
// simulated cluster. Attention takes what the published curves say (kernel_curves), all else the
// bytes that it reads and writes. Views are looked at, what they point to never is.
//
// What published kernels return is merged into the partial result by a pass of its own. Eager, as
// PyTorch does it operation by operation, that is 38 bytes per element of out (cast 2 + 4, subtract
// 8 + 4, weigh 4 + 4, subtract 8 + 4), and 8 more where only some of the rows are concerned and
// copied back; fused in one kernel it is 10. The first block of a pass is only cast.
//
// The shortest time of a call is not in here: published floors are what a host takes to launch, and
// hosts take Cluster::issue_seconds per call on the simulated device.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "attention/kernels/families.hpp"
#include "attention/kernels/kernel_curves.hpp"
#include "attention/kernels/kernel_seconds.hpp"
#include "attention/kernels/modelled_scores.hpp"
#include "attention/kernels/no_attention.hpp"
#include "comm/cluster.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

const comm::Gpu& gpu(const comm::Device& device) {
  const comm::Cluster* cluster = device.cluster();
  RINGSPAN_REQUIRE(cluster, "modelled kernels run on the simulated device, and not on ",
                   device.name());
  return cluster->gpu;
}

/// Everything but attention itself.
class ModelledMovement : public NoAttention<Kernels> {
 public:
  explicit ModelledMovement(comm::Device& device)
      : device_(device), bytes_per_second_(gpu(device).memory_bytes_per_second) {}

  void copy(const ConstTensorView& from, const TensorView& to) override {
    move(from.bytes() + to.bytes(), "copy");
  }
  void accumulate(const ConstTensorView& from, const TensorView& to) override {
    move(from.bytes() + 2 * to.bytes(), "accumulate");
  }
  void fill(const TensorView& to, double) override { move(to.bytes(), "fill"); }

 protected:
  void move(std::int64_t bytes, std::string_view kernel) {
    if (bytes > 0) device_.compute(static_cast<double>(bytes) / bytes_per_second_, kernel);
  }

  comm::Device& device_;

 private:
  double bytes_per_second_;
};

class ModelledKernels final : public ModelledMovement {
 public:
  ModelledKernels(comm::Device& device, ModelledLibrary library)
      : ModelledMovement(device), gpu_(gpu(device)), library_(library) {}

  void prepare(const Shape& shape) override {
    RINGSPAN_REQUIRE(element_bytes(shape.dtype) == 2, "no speed of ", name(library_.library),
                     " is known in ", name(shape.dtype), "; it is in bf16 and fp16");
    for (const KernelPass pass : {KernelPass::forward, KernelPass::backward})
      (void)curve(pass, shape.head_dim, shape.value_dim);
  }

  void forward(const ForwardBlock& block, const Partial& partial) override {
    if (block.tiles.empty()) return;
    const CallRows rows = call_rows(block.tiles, block.k.tokens);
    const double flops_per_pair = 2.0 * static_cast<double>(block.q.head_dim + block.v.head_dim);
    attend(curve(KernelPass::forward, block.q.head_dim, block.v.head_dim), block.tiles,
           flops_per_pair, block.q, rows.queries, "attention_forward");

    const std::int64_t elements = rows.queries * block.q.batch * block.q.heads * block.v.head_dim;
    const bool first = std::exchange(identity_, nullptr) == partial.max.data;
    const bool sliced = rows.queries < block.q.tokens;
    const std::int64_t eager = sliced ? 46 : 38, fused = 10, cast = 6;  // bytes per element
    move(elements * (first ? cast : library_.fused_merge ? fused : eager), "merge");
  }

  // dq, dk and dv come in two bytes per element and are added to accumulators in four: read both
  // and write one, which PyTorch, too, does in a single operation of mixed types.
  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv) override {
    if (block.tiles.empty()) return;
    const CallRows rows = call_rows(block.tiles, block.k.tokens);
    const double flops_per_pair =
        2.0 * static_cast<double>(3 * block.q.head_dim + 2 * block.v.head_dim);
    attend(curve(KernelPass::backward, block.q.head_dim, block.v.head_dim), block.tiles,
           flops_per_pair, block.q, rows.keys, "attention_backward");

    const std::int64_t elements = rows.queries * dq.batch * dq.heads * dq.head_dim +
                                  rows.keys * dk.batch * dk.heads * (dk.head_dim + dv.head_dim);
    move(elements * 10, "accumulate");
  }

  void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
             const ConstTensorView*, const TensorView& delta, const TensorView*) override {
    move(out.bytes() + d_out.bytes() + lse.bytes() + delta.bytes(), "delta");
  }

  void merge(const Partial& into, const Partial& from) override {
    move(bytes(from) + 2 * bytes(into), "merge");
  }

  void finalize(const Partial& partial, const ConstTensorView*, const TensorView& out,
                const TensorView& lse) override {
    move(bytes(partial) + out.bytes() + lse.bytes(), "finalize");
  }

  ScoreKernels* scores() override { return &scores_; }

  void fill(const TensorView& to, double value) override {
    if (value == -std::numeric_limits<double>::infinity()) identity_ = to.data;
    ModelledMovement::fill(to, value);
  }

 private:
  /// Throws invalid_argument where there is none.
  const KernelCurve& curve(KernelPass pass, std::int64_t head_dim, std::int64_t value_dim) const {
    return kernel_curve(gpu_.kind, library_.library, pass,
                        static_cast<double>(head_dim + value_dim) / 2);
  }

  static std::int64_t bytes(const Partial& partial) {
    return partial.out.bytes() + partial.max.bytes() + partial.sum.bytes();
  }

  /// `rows`: of one head of one sequence that thread blocks share.
  void attend(const KernelCurve& curve, std::span<const Tile> tiles, double flops_per_pair,
              const ConstTensorView& q, std::int64_t rows, std::string_view kernel) {
    const std::int64_t heads = q.batch * q.heads;
    if (last_.curve != &curve || last_.flops_per_pair != flops_per_pair || last_.heads != heads ||
        last_.rows != rows ||
        !std::equal(tiles.begin(), tiles.end(), last_.tiles.begin(), last_.tiles.end())) {
      last_ = {&curve,
               flops_per_pair,
               heads,
               rows,
               {tiles.begin(), tiles.end()},
               call_seconds(curve, tiles, flops_per_pair, heads, rows, gpu_.multiprocessors)};
    }
    device_.compute(last_.seconds / gpu_.attention_speed, kernel);
  }

  /// All that its time depends on. Blocks of a striped ring are alike, and each would take as long
  /// to model.
  struct Call {
    const KernelCurve* curve = nullptr;
    double flops_per_pair = 0;
    std::int64_t heads = 0, rows = 0;
    std::vector<Tile> tiles = {};
    double seconds = 0;
  };

  const comm::Gpu& gpu_;
  ModelledLibrary library_;
  ModelledScores scores_{device_, gpu_};
  Call last_;
  const void* identity_ = nullptr;  // max of a partial result that is still the identity
};

}  // namespace

std::unique_ptr<Kernels> make_modelled_movement(comm::Device& device) {
  return std::make_unique<ModelledMovement>(device);
}

std::unique_ptr<Kernels> make_usual_kernels(comm::Device& device) {
  return make_modelled_kernels(device, {usual_library(gpu(device).kind)});
}

std::unique_ptr<Kernels> make_modelled_kernels(comm::Device& device, ModelledLibrary library) {
  return std::make_unique<ModelledKernels>(device, library);
}

}  // namespace ringspan::attention
