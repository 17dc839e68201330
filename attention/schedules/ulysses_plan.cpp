// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/ulysses_plan.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/plan_saved.hpp"
#include "attention/schedules/row_exchange.hpp"
#include "attention/schedules/token_side.hpp"
#include "comm/collectives.hpp"

namespace ringspan::attention {
namespace {

using Direction = RowExchange::Direction;
using Exchanges = std::vector<RowExchange>;  // [group]

/// What one forward pass has on the head side, and how it gets there and back.
struct HeadSide {
  Exchanges qkv, out;
};

struct SavedHeads final : PlanSaved {
  using PlanSaved::PlanSaved;
  std::optional<HeadSide> heads;              // none where they are sent again
  std::vector<std::unique_ptr<Saved>> inner;  // [group]
};

class UlyssesPlan final : public Plan {
 public:
  UlyssesPlan(comm::Communicator comm, Kernels& kernels, comm::AllToAllAlgorithm algorithm,
              ShardContract contract, UlyssesCut cut, std::vector<std::unique_ptr<Plan>> inner,
              bool resends)
      : comm_(std::move(comm)),
        kernels_(kernels),
        algorithm_(algorithm),
        contract_(std::move(contract)),
        cut_(std::move(cut)),
        inner_(std::move(inner)),
        resends_(resends) {
    allocate_token_sides();
    for (int g = 0; g < cut_.groups(); ++g) {
      rows_.push_back(head_side_of({cut_.qkv(g), cut_.gradients(g)}));
      out_.push_back(head_side_of({cut_.out(g)}));
    }
    unsaved_ = head_side(rows_, out_, Direction::to_tokens);
    lse_.emplace(exchange(cut_.lse(), Direction::to_tokens, head_side_of({cut_.lse()})));
    if (contract_.problem.sinks) {
      d_sinks_ = Tensor(comm_.device(), DType::f32, 1, 1, shape().heads, 1);
    }
  }

  std::unique_ptr<Saved> make_saved() override {
    if (d_out_.empty()) reserve_backward();
    auto saved = std::make_unique<SavedHeads>(*this);
    if (!resends_) saved->heads = new_head_side(Direction::to_tokens);
    for (const auto& plan : inner_) saved->inner.push_back(plan->make_saved());
    return saved;
  }

  void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) override {
    contract_.require(inputs, outputs);
    auto* const kept = saved_to_fill<SavedHeads>(*this, saved);
    HeadSide& heads = kept && kept->heads ? *kept->heads : unsaved_;
    pipeline(
        heads.qkv, heads.out, [&](const TokenSide& rows) { rows.pack_qkv(inputs); },
        [&](int g) {
          Outputs results{out_view(heads.out[g], g)};
          if (outputs.wants_lse()) results.lse = lse_view(g);
          inner_[g]->forward(head_inputs(heads.qkv, g, inputs), results,
                             kept ? kept->inner[g].get() : nullptr);
        },
        [&](const TokenSide& rows) { rows.unpack_out(outputs.out); });
    if (outputs.wants_lse()) {
      lse_->start();
      lse_->finish();
      kernels_.copy(lse_->token_side(0).tensor(0, DType::f32, shape().heads, 1), outputs.lse);
    }
    if (kept) kept->filled = true;
  }

  void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                const ConstTensorView& d_out, const Gradients& gradients) override {
    contract_.require(inputs, outputs);
    contract_.require(d_out, gradients);
    const auto& kept = saved_to_read<SavedHeads>(*this, saved);
    if (resends_) resend(inputs, outputs.out);
    const HeadSide& heads = resends_ ? resent_ : *kept.heads;
    pipeline(
        d_out_, gradients_, [&](const TokenSide& rows) { rows.pack_out(d_out); },
        [&](int g) { differentiate(heads, *kept.inner[g], g, inputs); },
        [&](const TokenSide& rows) { rows.unpack(gradients); });
    if (contract_.problem.sinks) gather_d_sinks(gradients.d_sinks);
  }

 private:
  const Shape& shape() const { return contract_.problem.shape; }
  const HeadGroup& own(int group) const { return cut_.group(comm_.rank(), group); }

  // Groups come in, are worked on and leave, one step apart: the exchanges before and after group g
  // are under way while another group is.
  template <typename Pack, typename Work, typename Unpack>
  void pipeline(Exchanges& in, Exchanges& out, const Pack& pack, const Work& work,
                const Unpack& unpack) {
    const auto enter = [&](int g) {
      pack(TokenSide(kernels_, cut_, g, in[g]));
      in[g].start();
    };
    const auto leave = [&](int g) {
      out[g].finish();
      unpack(TokenSide(kernels_, cut_, g, out[g]));
    };
    const int groups = cut_.groups();
    enter(0);
    for (int g = 0; g < groups; ++g) {
      in[g].finish();
      if (g + 1 < groups) enter(g + 1);  // the next group moves in ...
      work(g);                           // ... while this one is worked on
      if (g > 0) leave(g - 1);           // ... and the one before moves out
      out[g].start();
    }
    leave(groups - 1);
  }

  // Before the pipeline, whose groups are alone on the token side.
  void resend(const Inputs& inputs, const ConstTensorView& out) {
    const auto send = [&](RowExchange& rows, int g, const auto& pack) {
      pack(TokenSide(kernels_, cut_, g, rows));
      rows.start();
      rows.finish();
    };
    for (int g = 0; g < cut_.groups(); ++g) {
      send(resent_.qkv[g], g, [&](const TokenSide& rows) { rows.pack_qkv(inputs); });
      send(resent_.out[g], g, [&](const TokenSide& rows) { rows.pack_out(out); });
    }
  }

  // Several groups may read the same keys and values: their gradients add up.
  void differentiate(const HeadSide& heads, const Saved& saved, int g, const Inputs& inputs) {
    const HeadGroup& group = own(g);
    const bool first = g == group.first_reader, last = g == group.last_reader;
    const QkvRow row = cut_.gradient_row(comm_.rank(), g);
    const PackedRows rows = gradients_[g].head_side();
    const KvBlock packed{row.k(rows), row.v(rows)};
    // Where no groups share a KV head there is no buffer to make blocks of.
    const bool alone = first && last;
    const KvBlock sum = alone ? packed : shared_kv(kv_sum_);
    const KvBlock kv = first ? sum : shared_kv(kv_share_);
    inner_[g]->backward(head_inputs(heads.qkv, g, inputs), {out_view(heads.out[g], g)}, saved,
                        out_view(d_out_[g], g),
                        {row.q(rows), kv.k, kv.v, sinks_of(d_sinks_.view(), g)});
    if (!first) {
      kernels_.accumulate(kv.k, sum.k);
      kernels_.accumulate(kv.v, sum.v);
    }
    if (last && !first) {
      kernels_.copy(sum.k, packed.k);
      kernels_.copy(sum.v, packed.v);
    }
  }

  // One buffer on the token side for several kinds of rows, which are there at different times; two
  // where groups come in while others leave.
  void allocate_token_sides() {
    std::int64_t in = token_side_bytes(cut_.lse()), out = in;
    for (int g = 0; g < cut_.groups(); ++g) {
      in = std::max({in, token_side_bytes(cut_.qkv(g)), token_side_bytes(cut_.out(g))});
      out = std::max({out, token_side_bytes(cut_.gradients(g)), token_side_bytes(cut_.out(g))});
    }
    if (cut_.groups() == 1) in = std::max(in, out);
    entering_ = comm_.device().allocate(in);
    leaving_ = cut_.groups() == 1 ? entering_ : comm_.device().allocate(out);
  }
  std::int64_t token_side_bytes(const RowExchange::Sizes& sizes) const {
    return sizes.token_side_bytes(comm_.rank());
  }
  comm::Buffer head_side_of(std::initializer_list<RowExchange::Sizes> uses) const {
    std::int64_t bytes = 0;
    for (const auto& use : uses) bytes = std::max(bytes, use.head_side_bytes(comm_.rank()));
    return comm_.device().allocate(bytes);
  }

  void reserve_backward() {
    if (resends_) resent_ = new_head_side(Direction::to_heads);
    for (int g = 0; g < cut_.groups(); ++g) {
      d_out_.push_back(exchange(cut_.out(g), Direction::to_heads, out_[g]));
      gradients_.push_back(exchange(cut_.gradients(g), Direction::to_tokens, rows_[g]));
      if (own(g).first_reader == own(g).last_reader || kv_sum_) continue;
      const std::int64_t bytes = shared_kv_format().bytes(cut_.all_tokens());
      kv_sum_ = comm_.device().allocate(bytes);
      kv_share_ = comm_.device().allocate(bytes);
    }
  }

  RowExchange exchange(RowExchange::Sizes sizes, Direction direction, comm::Buffer heads) const {
    const comm::Buffer& tokens = direction == Direction::to_heads ? entering_ : leaving_;
    return {comm_, std::move(sizes), direction, algorithm_, tokens, std::move(heads)};
  }
  /// `out_moves`: to the tokens, or here from them.
  HeadSide head_side(const std::vector<comm::Buffer>& qkv, const std::vector<comm::Buffer>& out,
                     Direction out_moves) const {
    HeadSide side;
    for (int g = 0; g < cut_.groups(); ++g) {
      side.qkv.push_back(exchange(cut_.qkv(g), Direction::to_heads, qkv[g]));
      side.out.push_back(exchange(cut_.out(g), out_moves, out[g]));
    }
    return side;
  }
  HeadSide new_head_side(Direction out_moves) const {
    std::vector<comm::Buffer> qkv, out;
    for (int g = 0; g < cut_.groups(); ++g) {
      qkv.push_back(head_side_of({cut_.qkv(g)}));
      out.push_back(head_side_of({cut_.out(g)}));
    }
    return head_side(qkv, out, out_moves);
  }

  TensorView out_view(const RowExchange& out, int g) const {
    return out.head_side().tensor(0, shape().dtype, own(g).share.heads.count, shape().value_dim);
  }
  TensorView lse_view(int g) const {
    const Part all = cut_.share(comm_.rank()).heads, heads = own(g).share.heads;
    return lse_->head_side()
        .tensor(0, DType::f32, all.count, 1)
        .slice_heads(heads.first - all.first, heads.count);
  }
  template <typename View>
  View sinks_of(const View& sinks, int g) const {
    const Part& heads = own(g).share.heads;
    return sinks.data ? sinks.slice_heads(heads.first, heads.count) : View{};
  }

  Inputs head_inputs(const Exchanges& qkv, int g, const Inputs& inputs) const {
    const int of_kv = own(g).first_reader;
    const QkvRow row = cut_.qkv_row(comm_.rank(), g), kv_row = cut_.qkv_row(comm_.rank(), of_kv);
    const PackedRows rows = qkv[g].head_side(), kv_rows = qkv[of_kv].head_side();
    return {row.q(rows), kv_row.k(kv_rows), kv_row.v(kv_rows), sinks_of(inputs.sinks, g)};
  }

  // Several groups share no more than one KV head.
  KvFormat shared_kv_format() const {
    KvFormat format{shape(), accumulator(shape())};
    format.shape.kv_heads = 1;
    return format;
  }
  KvBlock shared_kv(const comm::Buffer& buffer) const {
    return shared_kv_format().block(buffer.data(), cut_.all_tokens());
  }

  // Each rank has the complete d_sinks of its own heads.
  void gather_d_sinks(const TensorView& d_sinks) {
    std::vector<comm::Slice> parts;
    const std::int64_t bytes = element_bytes(DType::f32);
    for (int rank = 0; rank < cut_.ranks(); ++rank) {
      const Part& heads = cut_.share(rank).heads;
      parts.push_back(comm::slice(d_sinks_.buffer(), heads.first * bytes, heads.count * bytes));
    }
    comm::all_gather(comm_, parts);
    kernels_.copy(d_sinks_, d_sinks);
  }

  comm::Communicator comm_;
  Kernels& kernels_;
  comm::AllToAllAlgorithm algorithm_;
  ShardContract contract_;
  UlyssesCut cut_;
  std::vector<std::unique_ptr<Plan>> inner_;  // [group]
  bool resends_;
  comm::Buffer entering_, leaving_;       // token sides of all exchanges, in turn
  std::vector<comm::Buffer> rows_, out_;  // head sides, [group]: q, k, v or their gradients;
                                          // out or d_out
  HeadSide unsaved_;                      // of a forward pass that keeps nothing
  std::optional<RowExchange> lse_;        // of all groups
  Exchanges d_out_, gradients_;           // once there is a Saved
  HeadSide resent_;                       // likewise, in backward passes that resend
  comm::Buffer kv_sum_, kv_share_;        // and groups share a KV head
  Tensor d_sinks_;
};

}  // namespace

std::unique_ptr<Plan> make_ulysses_plan(comm::Communicator comm, Kernels& kernels,
                                        comm::AllToAllAlgorithm algorithm, ShardContract contract,
                                        UlyssesCut cut, std::vector<std::unique_ptr<Plan>> inner,
                                        bool resends) {
  return std::make_unique<UlyssesPlan>(std::move(comm), kernels, algorithm, std::move(contract),
                                       std::move(cut), std::move(inner), resends);
}

}  // namespace ringspan::attention
