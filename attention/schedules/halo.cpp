// SPDX-License-Identifier: Apache-2.0
// Sliding windows as a halo exchange. Each rank fetches, straight from their owners, the keys and
// values of other ranks that its window sees, while its kernel works on its own; what moves is as
// long as the window, whatever the shards. The halo is kept for the backward pass, which sends the
// gradients of its keys and values back while the kernel works on those of its own.
#include <utility>
#include <vector>

#include "attention/schedules/gradient_sum.hpp"
#include "attention/schedules/halo_parts.hpp"
#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "attention/schedules/stationary_queries.hpp"
#include "comm/batch.hpp"

namespace ringspan::attention {
namespace {

using Buffers = std::vector<comm::Buffer>;  // one per part

struct SavedHalo final : PlanSaved {
  SavedHalo(const Plan& made_by, Buffers of_parts, std::unique_ptr<SavedLse> of_queries)
      : PlanSaved(made_by), halo(std::move(of_parts)), queries(std::move(of_queries)) {}
  Buffers halo;  // keys and values
  std::unique_ptr<SavedLse> queries;
};

class HaloPlan final : public Plan {
 public:
  HaloPlan(comm::Communicator comm, Kernels& kernels, ShardContract contract,
           std::vector<Tile> own_tiles, HaloParts parts)
      : comm_(std::move(comm)),
        kernels_(kernels),
        own_tiles_(std::move(own_tiles)),
        parts_(std::move(parts)),
        queries_(comm_, kernels, std::move(contract)),
        kv_{shape(), shape().dtype},
        gradient_{shape(), accumulator(shape())},
        shown_(allocate(kv_, parts_.shown)),
        unsaved_(allocate(kv_, parts_.seen)) {}

  std::unique_ptr<Saved> make_saved() override {
    dk_.reserve(comm_.device(), shape(), queries_.tokens(), shape().kv_heads, shape().head_dim);
    dv_.reserve(comm_.device(), shape(), queries_.tokens(), shape().kv_heads, shape().value_dim);
    if (outgoing_.empty()) outgoing_ = allocate(gradient_, parts_.seen);
    if (incoming_.empty()) incoming_ = allocate(gradient_, parts_.shown);
    return std::make_unique<SavedHalo>(*this, allocate(kv_, parts_.seen),
                                       queries_.make_saved(*this));
  }

  void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) override {
    queries_.require(inputs, outputs);  // a refused call leaves `saved` as it was
    auto* const kept = saved_to_fill<SavedHalo>(*this, saved);
    queries_.begin_forward(*this, inputs, outputs, kept ? kept->queries.get() : nullptr);
    const Buffers& halo = kept ? kept->halo : unsaved_;
    comm::Request halo_moves = exchange(inputs, halo);
    queries_.attend({inputs.k, inputs.v}, own_tiles_);
    halo_moves.wait();
    for (std::size_t i = 0; i < halo.size(); ++i) {
      const HaloPart& part = parts_.seen[i];
      queries_.attend(kv_.view(halo[i].data(), part.tokens), part.tiles);
    }
    queries_.end_forward();
    if (kept) kept->filled = true;
  }

  void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                const ConstTensorView& d_out, const Gradients& gradients) override {
    const auto& kept = saved_to_read<SavedHalo>(*this, saved);
    queries_.begin_backward(*this, inputs, outputs, *kept.queries, d_out, gradients);
    for (std::size_t i = 0; i < parts_.seen.size(); ++i) {
      const HaloPart& part = parts_.seen[i];
      const KvBlock gradient = gradient_.block(outgoing_[i].data(), part.tokens);
      kernels_.fill(gradient.k, 0);
      kernels_.fill(gradient.v, 0);
      queries_.differentiate(kv_.view(kept.halo[i].data(), part.tokens), part.tiles, gradient);
    }
    comm::Request gradients_move = return_gradients();
    dk_.begin(kernels_, gradients.dk);
    dv_.begin(kernels_, gradients.dv);
    queries_.differentiate({inputs.k, inputs.v}, own_tiles_, {dk_.view(), dv_.view()});
    gradients_move.wait();
    add_incoming();
    dk_.end(kernels_);
    dv_.end(kernels_);
    queries_.end_backward();
  }

 private:
  const Shape& shape() const { return queries_.shape(); }

  Buffers allocate(const KvFormat& format, const std::vector<HaloPart>& parts) const {
    Buffers buffers;
    for (const HaloPart& part : parts) {
      buffers.push_back(comm_.device().allocate(format.bytes(part.tokens)));
    }
    return buffers;
  }

  comm::Request exchange(const Inputs& inputs, const Buffers& halo) {
    comm::Batch batch;
    for (std::size_t i = 0; i < halo.size(); ++i) {
      batch.receive(parts_.seen[i].owner, comm::whole(halo[i]));
    }
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      const HaloPart& part = parts_.shown[i];
      const KvBlock packed = kv_.block(shown_[i].data(), part.tokens);
      kernels_.copy(inputs.k.slice_tokens(part.first, part.tokens), packed.k);
      kernels_.copy(inputs.v.slice_tokens(part.first, part.tokens), packed.v);
      batch.send(part.viewer, comm::whole(shown_[i]));
    }
    return std::move(batch).post(comm_, "halo");
  }

  comm::Request return_gradients() {
    comm::Batch batch;
    for (std::size_t i = 0; i < incoming_.size(); ++i) {
      batch.receive(parts_.shown[i].viewer, comm::whole(incoming_[i]));
    }
    for (std::size_t i = 0; i < outgoing_.size(); ++i) {
      batch.send(parts_.seen[i].owner, comm::whole(outgoing_[i]));
    }
    return std::move(batch).post(comm_, "halo_gradients");
  }

  void add_incoming() {
    for (std::size_t i = 0; i < incoming_.size(); ++i) {
      const HaloPart& part = parts_.shown[i];
      const KvBlock share = gradient_.block(incoming_[i].data(), part.tokens);
      kernels_.accumulate(share.k, dk_.view().slice_tokens(part.first, part.tokens));
      kernels_.accumulate(share.v, dv_.view().slice_tokens(part.first, part.tokens));
    }
  }

  comm::Communicator comm_;
  Kernels& kernels_;
  std::vector<Tile> own_tiles_;
  HaloParts parts_;
  StationaryQueries queries_;
  KvFormat kv_, gradient_;
  Buffers shown_;    // keys and values that others see
  Buffers unsaved_;  // the halo of a forward pass that keeps nothing
  GradientSum dk_, dv_;
  Buffers outgoing_, incoming_;  // gradients of what is seen and of what is shown
};

class Halo final : public Schedule {
 public:
  Halo(comm::Communicator comm, Kernels& kernels) : comm_(std::move(comm)), kernels_(kernels) {}

  Shard shard(const Sequence& sequence) const override {
    return attention::shard(LayoutKind::contiguous, sequence, comm_.size(), comm_.rank());
  }

  void require_possible(const Problem& problem) const override {
    require_possible_in(LayoutKind::contiguous, problem, comm_.size());
    require_window(problem.mask);
  }

  std::unique_ptr<Plan> plan(const Problem& problem) override {
    require_possible(problem);
    kernels_.prepare(problem.shape);
    const Shard own = shard(problem.sequence);
    return std::make_unique<HaloPlan>(
        comm_, kernels_,
        layout_contract(problem, LayoutKind::contiguous, comm_.size(), comm_.rank()),
        visible_tiles(own, own, problem.sequence, problem.mask),
        halo_parts(problem, comm_.size(), comm_.rank()));
  }

 private:
  comm::Communicator comm_;
  Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Schedule> make_halo(comm::Communicator comm, Kernels& kernels) {
  return std::make_unique<Halo>(std::move(comm), kernels);
}

}  // namespace ringspan::attention
