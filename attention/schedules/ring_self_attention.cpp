// SPDX-License-Identifier: Apache-2.0
// Ring Self-Attention of ColossalAI's sequence parallelism, the historical baseline. Keys go around
// the ring, and the scores of this rank's queries with all of them stay in memory; then comes a
// plain softmax, then the values go around. In the backward pass they do so again, values first,
// and the gradients of all values, and of all keys, are summed by an all-reduce each, of which a
// rank takes its own. The ring has no mask: every block goes all the way. Other than there, a block
// moves while the one before it is in use.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "attention/schedules/plan_saved.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "attention/schedules/stationary_queries.hpp"
#include "attention/score_kernels.hpp"
#include "comm/collectives.hpp"
#include "comm/ring_exchange.hpp"

namespace ringspan::attention {
namespace {

void require_addressable_scores(const Problem& problem) {
  std::int64_t bytes = element_bytes(DType::f64);
  bool wraps = false;
  for (const std::int64_t factor : {problem.shape.batch, problem.shape.heads,
                                    problem.sequence.length, problem.sequence.length}) {
    wraps = wraps || __builtin_mul_overflow(bytes, factor, &bytes);
  }
  RINGSPAN_REQUIRE(!wraps, "ring_self_attention keeps the scores of ", problem.sequence.length,
                   " tokens with each other in memory, which is more than 64 bits of bytes");
}

/// The shard of one rank, among all keys.
struct KeyShard {
  std::int64_t first = 0, tokens = 0;  // columns of the scores
  std::vector<Tile> tiles = {};        // what this rank's queries see of it
};

struct SavedScores final : PlanSaved {
  SavedScores(const Plan& made_by, Tensor tensor, std::unique_ptr<SavedLse> saved)
      : PlanSaved(made_by), scores(std::move(tensor)), lse(std::move(saved)) {}
  Tensor scores;  // [batch][tokens][heads][all keys]
  std::unique_ptr<SavedLse> lse;
};

class RingSelfAttentionPlan final : public Plan {
 public:
  RingSelfAttentionPlan(comm::Communicator comm, Kernels& kernels, ShardContract contract,
                        std::vector<KeyShard> keys)
      : comm_(std::move(comm)),
        kernels_(kernels),
        score_kernels_(*kernels.scores()),
        keys_(std::move(keys)),
        queries_(comm_, kernels, std::move(contract)),
        ring_(comm_, comm_.size() > 1 ? block_bytes(largest_dim(), largest_shard()) : 0),
        scores_(all_scores()) {}

  std::unique_ptr<Saved> make_saved() override {
    if (!gradients_) {
      const std::int64_t elements = gradient(largest_dim()).elements();
      const std::int64_t part = (elements + comm_.size() - 1) / comm_.size();
      gradients_ = comm_.device().allocate(elements * element_bytes(sums()));
      staging_ = comm_.device().allocate(part * element_bytes(sums()));
    }
    return std::make_unique<SavedScores>(*this, all_scores(), queries_.make_saved(*this));
  }

  void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) override {
    queries_.require(inputs, outputs);  // a refused call leaves `saved` as it was
    auto* const kept = saved_to_fill<SavedScores>(*this, saved);
    queries_.begin_forward(*this, inputs, outputs, kept ? kept->lse.get() : nullptr);
    const TensorView scores = kept ? kept->scores : scores_;
    ForwardBlock block = queries_.forward_block();
    kernels_.fill(scores, -std::numeric_limits<double>::infinity());
    travel(inputs.k, [&](const KeyShard& shard, const ConstTensorView& k) {
      block.k = k;
      block.tiles = shard.tiles;
      score_kernels_.scores(block, columns(scores, shard));
    });
    score_kernels_.max_rows(scores, queries_.partial());
    travel(inputs.v, [&](const KeyShard& shard, const ConstTensorView& v) {
      block.v = v;
      block.tiles = shard.tiles;
      score_kernels_.weigh(columns(scores, shard), block, queries_.partial());
    });
    queries_.end_forward();
    if (kept) kept->filled = true;
  }

  void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                const ConstTensorView& d_out, const Gradients& gradients) override {
    const auto& kept = saved_to_read<SavedScores>(*this, saved);
    queries_.begin_backward(*this, inputs, outputs, *kept.lse, d_out, gradients);
    BackwardBlock block = queries_.backward_block();
    const TensorView dv = gradient(shape().value_dim), dk = gradient(shape().head_dim);
    kernels_.fill(dv, 0);
    travel(inputs.v, [&](const KeyShard& shard, const ConstTensorView& v) {
      block.v = v;
      block.tiles = shard.tiles;
      score_kernels_.backward_values(columns(kept.scores, shard), block, rows(dv, shard),
                                     columns(scores_, shard));
    });
    sum_over_ranks(dv, gradients.dv);
    kernels_.fill(dk, 0);
    travel(inputs.k, [&](const KeyShard& shard, const ConstTensorView& k) {
      block.k = k;
      block.tiles = shard.tiles;
      score_kernels_.backward_keys(columns(scores_, shard), block, queries_.dq(), rows(dk, shard));
    });
    sum_over_ranks(dk, gradients.dk);
    queries_.end_backward();
  }

 private:
  const Shape& shape() const { return queries_.shape(); }
  DType sums() const { return accumulator(shape().dtype); }
  std::int64_t all_keys() const { return keys_.back().first + keys_.back().tokens; }
  std::int64_t largest_dim() const { return std::max(shape().head_dim, shape().value_dim); }
  std::int64_t largest_shard() const {
    return std::max_element(keys_.begin(), keys_.end(),
                            [](const auto& a, const auto& b) { return a.tokens < b.tokens; })
        ->tokens;
  }

  Tensor all_scores() const {
    return {comm_.device(), sums(), shape().batch, queries_.tokens(), shape().heads, all_keys()};
  }
  TensorView columns(TensorView scores, const KeyShard& shard) const {
    scores.data = static_cast<std::byte*>(scores.data) + shard.first * element_bytes(sums());
    scores.head_dim = shard.tokens;
    return scores;
  }

  /// The gradient of all keys or values, a shard behind the other in each sequence.
  TensorView gradient(std::int64_t dim) const {
    return TensorView::packed(gradients_.data(), sums(), shape().batch, all_keys(),
                              shape().kv_heads, dim);
  }
  static TensorView rows(const TensorView& gradient, const KeyShard& shard) {
    return gradient.slice_tokens(shard.first, shard.tokens);
  }

  std::int64_t block_bytes(std::int64_t dim, std::int64_t tokens) const {
    return shape().batch * tokens * shape().kv_heads * dim * element_bytes(shape().dtype);
  }
  TensorView block(std::int64_t dim, std::int64_t tokens) const {
    return TensorView::packed(ring_.block().data(), shape().dtype, shape().batch, tokens,
                              shape().kv_heads, dim);
  }

  /// All ranks' keys, or values, come by, of which `own` are this rank's.
  template <typename Use>
  void travel(const ConstTensorView& own, const Use& use) {
    const std::int64_t dim = own.head_dim;
    ring_.begin();
    if (comm_.size() > 1) kernels_.copy(own, block(dim, own.tokens));
    for (int step = 0; step < comm_.size(); ++step) {
      const int owner = (comm_.rank() - step + comm_.size()) % comm_.size();
      const int next = (owner - 1 + comm_.size()) % comm_.size();
      const bool moves = step + 1 < comm_.size();
      if (moves)
        ring_.start(block_bytes(dim, keys_[owner].tokens), block_bytes(dim, keys_[next].tokens));
      use(keys_[owner], step == 0 ? own : ConstTensorView(block(dim, keys_[owner].tokens)));
      if (moves) ring_.finish();
    }
  }

  void sum_over_ranks(const TensorView& gradient, const TensorView& own) {
    comm::all_reduce(comm_, comm::slice(gradients_, 0, gradient.bytes()), element(sums()),
                     comm::Reduction::sum, staging_);
    kernels_.copy(rows(gradient, keys_[comm_.rank()]), own);
  }

  comm::Communicator comm_;
  Kernels& kernels_;
  ScoreKernels& score_kernels_;
  std::vector<KeyShard> keys_;  // [owner]
  StationaryQueries queries_;
  comm::RingExchange ring_;
  Tensor scores_;                     // of a pass that saves none; backward their gradients
  comm::Buffer gradients_, staging_;  // once there is a Saved
};

class RingSelfAttention final : public Schedule {
 public:
  RingSelfAttention(comm::Communicator comm, Kernels& kernels, LayoutKind layout)
      : comm_(std::move(comm)), kernels_(kernels), layout_(layout) {}

  Shard shard(const Sequence& sequence) const override {
    return attention::shard(layout_, sequence, comm_.size(), comm_.rank());
  }

  void require_possible(const Problem& problem) const override {
    require_possible_in(layout_, problem, comm_.size());
    require_addressable_scores(problem);
    RINGSPAN_REQUIRE(kernels_.scores(),
                     "ring_self_attention keeps scores in memory, which these kernels cannot; "
                     "reference, cpu and modelled ones can");
  }

  std::unique_ptr<Plan> plan(const Problem& problem) override {
    require_possible(problem);
    kernels_.prepare(problem.shape);
    kernels_.scores()->prepare(problem.shape);
    const std::vector<Shard> shards = attention::shards(layout_, problem.sequence, comm_.size());
    const Shard& queries = shards[comm_.rank()];
    std::vector<KeyShard> keys;
    std::int64_t first = 0;
    for (const Shard& shard : shards) {
      keys.push_back(
          {first, tokens(shard), visible_tiles(queries, shard, problem.sequence, problem.mask)});
      first += keys.back().tokens;
    }
    return std::make_unique<RingSelfAttentionPlan>(
        comm_, kernels_, layout_contract(problem, layout_, comm_.size(), comm_.rank()),
        std::move(keys));
  }

 private:
  comm::Communicator comm_;
  Kernels& kernels_;
  LayoutKind layout_;
};

}  // namespace

std::unique_ptr<Schedule> make_ring_self_attention(comm::Communicator comm, Kernels& kernels,
                                                   LayoutKind layout) {
  return std::make_unique<RingSelfAttention>(std::move(comm), kernels, layout);
}

}  // namespace ringspan::attention
