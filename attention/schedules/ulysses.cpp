// SPDX-License-Identifier: Apache-2.0
// DeepSpeed-Ulysses around any inner schedule. The ranks of a group share the tokens of one inner
// shard. Before attention, one all-to-all turns "own tokens, all heads" into "all tokens, own
// heads" for q, k and v together; after it, another one turns the result back. With a ring inside
// this is USP.
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "attention/schedules/head_split.hpp"
#include "attention/schedules/plan_saved.hpp"
#include "attention/schedules/qkv_row.hpp"
#include "attention/schedules/row_exchange.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "comm/collectives.hpp"

namespace ringspan::attention {
namespace {

using Direction = RowExchange::Direction;

/// How the group cuts the problem among its ranks.
struct Cut {
  Cut(const Shape& of_all, std::vector<HeadShare> head_shares, std::vector<std::int64_t> counts)
      : shape(of_all), shares(std::move(head_shares)), tokens(std::move(counts)) {}

  int ranks() const { return static_cast<int>(shares.size()); }

  QkvRow qkv_row(int rank) const { return {shape, shares[rank], shape.dtype}; }
  /// Gradients of copied KV heads are yet to be summed, so they travel as accumulators.
  QkvRow gradient_row(int rank) const {
    const DType dtype = replicates_kv(shape, ranks()) ? accumulator(shape.dtype) : shape.dtype;
    return {shape, shares[rank], dtype};
  }

  RowExchange::Sizes qkv() const {
    return sizes([this](int rank) { return qkv_row(rank).bytes(); });
  }
  RowExchange::Sizes gradients() const {
    return sizes([this](int rank) { return gradient_row(rank).bytes(); });
  }
  RowExchange::Sizes per_head(std::int64_t bytes) const {
    return sizes([&](int rank) { return shares[rank].heads.count * bytes; });
  }
  RowExchange::Sizes out() const { return per_head(shape.value_dim * element_bytes(shape.dtype)); }
  RowExchange::Sizes lse() const { return per_head(element_bytes(DType::f32)); }

  /// True if the rank before holds a copy of the same KV head.
  bool repeats_kv(int rank) const {
    return rank > 0 && shares[rank].kv_heads.first == shares[rank - 1].kv_heads.first;
  }

  Shape shape;
  std::vector<HeadShare> shares;     // [rank]
  std::vector<std::int64_t> tokens;  // [rank]

 private:
  template <typename RowBytes>
  RowExchange::Sizes sizes(const RowBytes& row_bytes) const {
    RowExchange::Sizes result{shape.batch, tokens, {}};
    for (int rank = 0; rank < ranks(); ++rank) result.row_bytes.push_back(row_bytes(rank));
    return result;
  }
};

/// What one forward pass has on the head side, and how it gets there and back.
struct HeadSide {
  RowExchange qkv, out;
};

struct SavedHeads final : PlanSaved {
  SavedHeads(const Plan& made_by, HeadSide head_side, std::unique_ptr<Saved> saved)
      : PlanSaved(made_by), heads(std::move(head_side)), inner(std::move(saved)) {}
  HeadSide heads;
  std::unique_ptr<Saved> inner;
};

class UlyssesPlan final : public Plan {
 public:
  UlyssesPlan(comm::Communicator comm, Kernels& kernels, comm::AllToAllAlgorithm algorithm,
              ShardContract contract, Cut cut, std::unique_ptr<Plan> inner)
      : comm_(std::move(comm)),
        kernels_(kernels),
        algorithm_(algorithm),
        contract_(std::move(contract)),
        cut_(std::move(cut)),
        inner_(std::move(inner)),
        token_side_(token_side_of({cut_.qkv(), cut_.out(), cut_.lse(), cut_.gradients()})),
        rows_(head_side_of({cut_.qkv(), cut_.gradients()})),
        out_(head_side_of({cut_.out()})),
        unsaved_(head_side(rows_, out_)),
        lse_(exchange(cut_.lse(), Direction::to_tokens, head_side_of({cut_.lse()}))) {
    if (contract_.problem.sinks) {
      d_sinks_ = Tensor(comm_.device(), DType::f32, 1, 1, shape().heads, 1);
    }
  }

  std::unique_ptr<Saved> make_saved() override {
    if (!d_out_) {
      d_out_ = exchange(cut_.out(), Direction::to_heads, out_);
      gradients_ = exchange(cut_.gradients(), Direction::to_tokens, rows_);
    }
    HeadSide heads = head_side(head_side_of({cut_.qkv()}), head_side_of({cut_.out()}));
    return std::make_unique<SavedHeads>(*this, std::move(heads), inner_->make_saved());
  }

  void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) override {
    contract_.require(inputs, outputs);
    auto* const kept = saved_to_fill<SavedHeads>(*this, saved);
    HeadSide& heads = kept ? kept->heads : unsaved_;
    pack(inputs, heads.qkv);
    heads.qkv.run();
    Outputs head_outputs{out_view(heads.out.head_side(), own().heads.count)};
    if (outputs.lse.data) head_outputs.lse = lse_view(lse_.head_side(), own().heads.count);
    inner_->forward(head_inputs(heads.qkv, inputs), head_outputs,
                    kept ? kept->inner.get() : nullptr);
    heads.out.run();
    kernels_.copy(out_view(heads.out.token_side(0), shape().heads), outputs.out);
    if (outputs.lse.data) {
      lse_.run();
      kernels_.copy(lse_view(lse_.token_side(0), shape().heads), outputs.lse);
    }
    if (kept) kept->filled = true;
  }

  void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                const ConstTensorView& d_out, const Gradients& gradients) override {
    contract_.require(inputs, outputs);
    contract_.require(d_out, gradients);
    const auto& kept = saved_to_read<SavedHeads>(*this, saved);
    kernels_.copy(d_out, out_view(d_out_->token_side(0), shape().heads));
    d_out_->run();
    const QkvRow row = cut_.gradient_row(comm_.rank());
    const PackedRows rows = gradients_->head_side();
    inner_->backward(head_inputs(kept.heads.qkv, inputs),
                     {out_view(kept.heads.out.head_side(), own().heads.count)}, *kept.inner,
                     out_view(d_out_->head_side(), own().heads.count),
                     {row.q(rows), row.k(rows), row.v(rows), own_sinks(d_sinks_.view())});
    gradients_->run();
    unpack(gradients);
    if (contract_.problem.sinks) gather_d_sinks(gradients.d_sinks);
  }

 private:
  const Shape& shape() const { return contract_.problem.shape; }
  const HeadShare& own() const { return cut_.shares[comm_.rank()]; }

  // One buffer for several kinds of rows, which are there at different times.
  comm::Buffer token_side_of(std::initializer_list<RowExchange::Sizes> uses) const {
    std::int64_t bytes = 0;
    for (const auto& use : uses) bytes = std::max(bytes, use.token_side_bytes(comm_.rank()));
    return comm_.device().allocate(bytes);
  }
  comm::Buffer head_side_of(std::initializer_list<RowExchange::Sizes> uses) const {
    std::int64_t bytes = 0;
    for (const auto& use : uses) bytes = std::max(bytes, use.head_side_bytes(comm_.rank()));
    return comm_.device().allocate(bytes);
  }

  RowExchange exchange(RowExchange::Sizes sizes, Direction direction, comm::Buffer heads) const {
    return {comm_, std::move(sizes), direction, algorithm_, token_side_, std::move(heads)};
  }
  HeadSide head_side(comm::Buffer qkv, comm::Buffer out) const {
    return {exchange(cut_.qkv(), Direction::to_heads, std::move(qkv)),
            exchange(cut_.out(), Direction::to_tokens, std::move(out))};
  }

  TensorView out_view(const PackedRows& rows, std::int64_t heads) const {
    return rows.tensor(0, shape().dtype, heads, shape().value_dim);
  }
  TensorView lse_view(const PackedRows& rows, std::int64_t heads) const {
    return rows.tensor(0, DType::f32, heads, 1);
  }
  template <typename View>
  View own_sinks(const View& sinks) const {
    return sinks.data ? sinks.slice_heads(own().heads.first, own().heads.count) : View{};
  }

  Inputs head_inputs(const RowExchange& qkv, const Inputs& inputs) const {
    const QkvRow row = cut_.qkv_row(comm_.rank());
    const PackedRows rows = qkv.head_side();
    return {row.q(rows), row.k(rows), row.v(rows), own_sinks(inputs.sinks)};
  }

  void pack(const Inputs& inputs, const RowExchange& qkv) {
    for (int rank = 0; rank < comm_.size(); ++rank) {
      const auto& [heads, kv_heads] = cut_.shares[rank];
      const QkvRow row = cut_.qkv_row(rank);
      const PackedRows rows = qkv.token_side(rank);
      kernels_.copy(inputs.q.slice_heads(heads.first, heads.count), row.q(rows));
      kernels_.copy(inputs.k.slice_heads(kv_heads.first, kv_heads.count), row.k(rows));
      kernels_.copy(inputs.v.slice_heads(kv_heads.first, kv_heads.count), row.v(rows));
    }
  }

  void unpack(const Gradients& gradients) {
    const auto row = [this](int rank) { return cut_.gradient_row(rank); };
    const auto rows = [this](int rank) { return gradients_->token_side(rank); };
    for (int rank = 0, first = 0; rank < comm_.size(); ++rank) {  // first to hold this KV head
      if (!cut_.repeats_kv(rank)) {
        first = rank;
        continue;
      }
      kernels_.accumulate(row(rank).k(rows(rank)), row(first).k(rows(first)));
      kernels_.accumulate(row(rank).v(rows(rank)), row(first).v(rows(first)));
    }
    for (int rank = 0; rank < comm_.size(); ++rank) {
      const auto& [heads, kv] = cut_.shares[rank];
      kernels_.copy(row(rank).q(rows(rank)), gradients.dq.slice_heads(heads.first, heads.count));
      if (cut_.repeats_kv(rank)) continue;
      kernels_.copy(row(rank).k(rows(rank)), gradients.dk.slice_heads(kv.first, kv.count));
      kernels_.copy(row(rank).v(rows(rank)), gradients.dv.slice_heads(kv.first, kv.count));
    }
  }

  // Each rank has the complete d_sinks of its own heads.
  void gather_d_sinks(const TensorView& d_sinks) {
    std::vector<comm::Slice> parts;
    const std::int64_t bytes = element_bytes(DType::f32);
    for (const HeadShare& share : cut_.shares) {
      parts.push_back(
          comm::slice(d_sinks_.buffer(), share.heads.first * bytes, share.heads.count * bytes));
    }
    comm::all_gather(comm_, parts);
    kernels_.copy(d_sinks_, d_sinks);
  }

  comm::Communicator comm_;
  Kernels& kernels_;
  comm::AllToAllAlgorithm algorithm_;
  ShardContract contract_;
  Cut cut_;
  std::unique_ptr<Plan> inner_;
  comm::Buffer token_side_;  // of every exchange, one after the other
  comm::Buffer rows_, out_;  // head sides: q, k, v or their gradients; out or d_out
  HeadSide unsaved_;         // of a forward pass that keeps nothing
  RowExchange lse_;
  std::optional<RowExchange> d_out_, gradients_;  // once there is a Saved
  Tensor d_sinks_;
};

class Ulysses final : public Schedule {
 public:
  Ulysses(comm::Communicator comm, Kernels& kernels, std::unique_ptr<Schedule> inner,
          comm::AllToAllAlgorithm algorithm)
      : comm_(std::move(comm)),
        kernels_(kernels),
        inner_(std::move(inner)),
        algorithm_(algorithm) {}

  Shard shard(const Sequence& sequence) const override {
    return piece(inner_->shard(sequence), comm_.size(), comm_.rank());
  }

  void require_possible(const Problem& problem) const override {
    require_valid(problem);
    for (const HeadShare& share : split_heads(problem.shape, comm_.size())) {
      inner_->require_possible(with_heads(problem, share));
    }
  }

  std::unique_ptr<Plan> plan(const Problem& problem) override {
    require_possible(problem);
    if (comm_.size() == 1) return inner_->plan(problem);
    std::vector<HeadShare> shares = split_heads(problem.shape, comm_.size());
    std::unique_ptr<Plan> inner = inner_->plan(with_heads(problem, shares[comm_.rank()]));

    std::vector<std::int64_t> counts;
    const Shard of_group = inner_->shard(problem.sequence);
    for (int rank = 0; rank < comm_.size(); ++rank) {
      counts.push_back(tokens(piece(of_group, comm_.size(), rank)));
    }
    ShardContract contract{problem, counts[comm_.rank()],
                           concat("ulysses: piece ", comm_.rank(), " of ", comm_.size(),
                                  " of the inner schedule's shard")};
    return std::make_unique<UlyssesPlan>(comm_, kernels_, algorithm_, std::move(contract),
                                         Cut(problem.shape, std::move(shares), std::move(counts)),
                                         std::move(inner));
  }

 private:
  comm::Communicator comm_;
  Kernels& kernels_;
  std::unique_ptr<Schedule> inner_;
  comm::AllToAllAlgorithm algorithm_;
};

}  // namespace

std::unique_ptr<Schedule> make_ulysses(comm::Communicator comm, Kernels& kernels,
                                       std::unique_ptr<Schedule> inner,
                                       comm::AllToAllAlgorithm algorithm) {
  return std::make_unique<Ulysses>(std::move(comm), kernels, std::move(inner), algorithm);
}

}  // namespace ringspan::attention
