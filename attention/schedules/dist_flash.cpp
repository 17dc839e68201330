// SPDX-License-Identifier: Apache-2.0
// DISTFLASHATTN's balanced schedule. Blocks go straight from their owners to those who use them,
// one step ahead. Ranks that a mask leaves without work help others: queries come instead of keys,
// and go home as partial results, one step late, while the next blocks are in use. So does all that
// a rank works out for others in the backward pass, to which delta goes where the paper sends out.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "attention/schedules/block_exchange.hpp"
#include "attention/schedules/dist_flash_steps.hpp"
#include "attention/schedules/gradient_sum.hpp"
#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/partial_block.hpp"
#include "attention/schedules/query_block.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "attention/schedules/stationary_queries.hpp"

namespace ringspan::attention {
namespace {

/// Tokens of the largest block of each kind that one rank sends or uses; none if there is none.
struct LargestBlocks {
  LargestBlocks(const std::vector<DistFlashStep>& steps, std::int64_t own_tokens) {
    for (std::size_t t = 1; t < steps.size(); ++t) {
      const DistFlashStep& step = steps[t];
      if (step.lends_keys) lent_keys = own_tokens;
      if (step.is_helped) lent_queries = own_tokens;
      if (!step.own.empty()) keys = std::max(keys, step.tokens);
      if (!step.helped.empty()) queries = std::max(queries, step.tokens);
    }
  }

  std::int64_t lent_keys = 0, lent_queries = 0;  // its own
  std::int64_t keys = 0, queries = 0;            // of others
};

/// What travels in a pass, besides keys and values: lent blocks of queries, and what comes of them
/// and of lent keys. One block arrives while another one is in use, or is on its way home.
struct Exchanges {
  Exchanges(const comm::Communicator& comm, const LargestBlocks& largest, std::int64_t query_bytes,
            std::int64_t result_bytes, std::int64_t gradient_bytes)
      : queries(comm, query_bytes, {1, largest.lent_queries}, {2, largest.queries}),
        results(comm, result_bytes, {2, largest.queries}, {1, largest.lent_queries}),
        gradients(comm, gradient_bytes, {2, largest.keys}, {1, largest.lent_keys}) {}

  void end() {
    for (BlockExchange* each : {&queries, &results, &gradients}) each->end();
  }

  BlockExchange queries, results;
  BlockExchange gradients;  // of keys and values; forward without bytes
};

class DistFlashPlan final : public Plan {
 public:
  DistFlashPlan(comm::Communicator comm, Kernels& kernels, ShardContract contract,
                std::vector<DistFlashStep> steps)
      : comm_(std::move(comm)),
        kernels_(kernels),
        steps_(std::move(steps)),
        queries_(comm_, kernels, std::move(contract)),
        largest_(steps_, tokens()),
        kv_format_{shape(), shape().dtype},
        gradient_format_{shape(), accumulator(shape())},
        query_format_{shape()},
        partial_format_{shape()},
        kv_(comm_, kv_format_.bytes(1), {1, largest_.lent_keys}, {2, largest_.keys}),
        forward_(comm_, largest_, q(nullptr, 1, shape().dtype).bytes(), partial_format_.bytes(1),
                 0) {}

  std::unique_ptr<Saved> make_saved() override {
    if (!backward_) {
      backward_.emplace(comm_, largest_, query_format_.bytes(1),
                        q(nullptr, 1, gradient_format_.dtype).bytes(), gradient_format_.bytes(1));
      dk_.reserve(comm_.device(), shape(), tokens(), shape().kv_heads, shape().head_dim);
      dv_.reserve(comm_.device(), shape(), tokens(), shape().kv_heads, shape().value_dim);
    }
    return queries_.make_saved(*this);
  }

  void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) override {
    queries_.begin_forward(*this, inputs, outputs, saved);
    lend_keys(inputs);
    if (largest_.lent_queries > 0) {
      kernels_.copy(inputs.q, q(forward_.queries.write(), tokens(), shape().dtype));
    }
    const auto work = [&](const DistFlashStep& step) {
      if (!step.own.empty()) queries_.attend(keys(step, inputs), step.own);
      if (!step.helped.empty()) help_forward(step, inputs);
    };
    const auto take = [&](const DistFlashStep& step) {
      if (!step.is_helped) return;
      kernels_.merge(queries_.partial(), partial_format_.block(forward_.results.held(), tokens()));
    };
    run(forward_, work, take);
    queries_.end_forward();
  }

  void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                const ConstTensorView& d_out, const Gradients& gradients) override {
    queries_.begin_backward(*this, inputs, outputs, saved, d_out, gradients);
    dk_.begin(kernels_, gradients.dk);
    dv_.begin(kernels_, gradients.dv);
    lend_keys(inputs);
    if (largest_.lent_queries > 0) lend_queries();
    const auto work = [&](const DistFlashStep& step) {
      if (!step.own.empty()) {
        queries_.differentiate(keys(step, inputs), step.own, share(step));
      }
      if (!step.helped.empty()) help_backward(step, inputs);
    };
    run(*backward_, work, [this](const DistFlashStep& step) { take_gradients(step); });
    dk_.end(kernels_);
    dv_.end(kernels_);
    queries_.end_backward();
  }

 private:
  const Shape& shape() const { return queries_.shape(); }
  std::int64_t tokens() const { return queries_.tokens(); }

  void lend_keys(const Inputs& inputs) {
    if (largest_.lent_keys == 0) return;
    const KvBlock lent = kv_format_.block(kv_.write(), tokens());
    kernels_.copy(inputs.k, lent.k);
    kernels_.copy(inputs.v, lent.v);
  }

  KvView keys(const DistFlashStep& step, const Inputs& inputs) const {
    if (step.behind == comm_.rank()) return {inputs.k, inputs.v};
    return kv_format_.view(kv_.held(), step.tokens);
  }

  /// `work` computes one step; `take` adds what came home of it, one step later.
  template <typename Work, typename Take>
  void run(Exchanges& exchanges, const Work& work, const Take& take) {
    comm::Request fetched, returned;
    for (std::size_t t = 0; t < steps_.size(); ++t) {
      const DistFlashStep& step = steps_[t];
      fetched.wait();
      kv_.receive();
      exchanges.queries.receive();
      if (t + 1 < steps_.size()) fetched = fetch(exchanges, steps_[t + 1]);
      work(step);
      if (t == 0) continue;
      finish(exchanges, returned);
      take(steps_[t - 1]);
      returned = give_back(exchanges, step);
    }
    finish(exchanges, returned);
    take(steps_.back());
    kv_.end();
    exchanges.end();
  }

  comm::Request fetch(Exchanges& exchanges, const DistFlashStep& step) {
    comm::Batch batch;
    kv_.add_to(batch, step.ahead, step.lends_keys ? tokens() : 0, step.behind,
               step.own.empty() ? 0 : step.tokens);
    exchanges.queries.add_to(batch, step.ahead, step.is_helped ? tokens() : 0, step.behind,
                             step.helped.empty() ? 0 : step.tokens);
    return std::move(batch).post(comm_, "dist_flash_fetch");
  }

  comm::Request give_back(Exchanges& exchanges, const DistFlashStep& step) {
    comm::Batch batch;
    exchanges.results.add_to(batch, step.behind, step.helped.empty() ? 0 : step.tokens, step.ahead,
                             step.is_helped ? tokens() : 0);
    exchanges.gradients.add_to(batch, step.behind, step.own.empty() ? 0 : step.tokens, step.ahead,
                               step.lends_keys ? tokens() : 0);
    return std::move(batch).post(comm_, "dist_flash_return");
  }

  static void finish(Exchanges& exchanges, comm::Request& returned) {
    returned.wait();
    exchanges.results.receive();
    exchanges.gradients.receive();
  }

  void help_forward(const DistFlashStep& step, const Inputs& inputs) {
    const TensorView visiting = q(forward_.queries.held(), step.tokens, shape().dtype);
    const Partial partial = partial_format_.block(forward_.results.write(), step.tokens);
    fill_with_identity(kernels_, partial);
    const Logits& logits = queries_.forward_block().logits;
    kernels_.forward({visiting, inputs.k, inputs.v, step.helped, logits}, partial);
  }

  void lend_queries() {
    const BackwardBlock& own = queries_.backward_block();
    const QueryBlock lent = query_format_.block(backward_->queries.write(), tokens());
    kernels_.copy(own.q, lent.q);
    kernels_.copy(own.d_out, lent.d_out);
    kernels_.copy(own.lse, lent.lse);
    kernels_.copy(own.delta, lent.delta);
  }

  void help_backward(const DistFlashStep& step, const Inputs& inputs) {
    const QueryView visiting = query_format_.view(backward_->queries.held(), step.tokens);
    const TensorView dq = q(backward_->results.write(), step.tokens, gradient_format_.dtype);
    kernels_.fill(dq, 0);
    const Logits& logits = queries_.backward_block().logits;
    kernels_.backward({visiting.q, inputs.k, inputs.v, step.helped, logits, visiting.lse,
                       visiting.delta, visiting.d_out},
                      dq, dk_.view(), dv_.view());
  }

  /// For this rank's share of the gradient of the keys and values of a step.
  KvBlock share(const DistFlashStep& step) {
    if (step.behind == comm_.rank()) return {dk_.view(), dv_.view()};
    const KvBlock share = gradient_format_.block(backward_->gradients.write(), step.tokens);
    kernels_.fill(share.k, 0);
    kernels_.fill(share.v, 0);
    return share;
  }

  void take_gradients(const DistFlashStep& step) {
    if (step.is_helped) {
      kernels_.accumulate(q(backward_->results.held(), tokens(), gradient_format_.dtype),
                          queries_.dq());
    }
    if (!step.lends_keys) return;
    const KvBlock share = gradient_format_.block(backward_->gradients.held(), tokens());
    kernels_.accumulate(share.k, dk_.view());
    kernels_.accumulate(share.v, dv_.view());
  }

  /// A block of queries, or of their gradient.
  TensorView q(std::byte* data, std::int64_t count, DType dtype) const {
    return TensorView::packed(data, dtype, shape().batch, count, shape().heads, shape().head_dim);
  }

  comm::Communicator comm_;
  Kernels& kernels_;
  std::vector<DistFlashStep> steps_;
  StationaryQueries queries_;
  LargestBlocks largest_;
  KvFormat kv_format_, gradient_format_;
  QueryFormat query_format_;
  PartialFormat partial_format_;
  BlockExchange kv_;
  Exchanges forward_;
  std::optional<Exchanges> backward_;  // once there is a Saved
  GradientSum dk_, dv_;
};

class DistFlash final : public Schedule {
 public:
  DistFlash(comm::Communicator comm, Kernels& kernels)
      : comm_(std::move(comm)), kernels_(kernels) {}

  Shard shard(const Sequence& sequence) const override {
    return attention::shard(kLayout, sequence, comm_.size(), comm_.rank());
  }

  void require_possible(const Problem& problem) const override {
    require_possible_in(kLayout, problem, comm_.size());
  }

  std::unique_ptr<Plan> plan(const Problem& problem) override {
    require_possible(problem);
    kernels_.prepare(problem.shape);
    return std::make_unique<DistFlashPlan>(
        comm_, kernels_, layout_contract(problem, kLayout, comm_.size(), comm_.rank()),
        dist_flash_steps(problem, kLayout, comm_.size(), comm_.rank()));
  }

 private:
  static constexpr LayoutKind kLayout = LayoutKind::contiguous;

  comm::Communicator comm_;
  Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Schedule> make_dist_flash(comm::Communicator comm, Kernels& kernels) {
  return std::make_unique<DistFlash>(std::move(comm), kernels);
}

}  // namespace ringspan::attention
