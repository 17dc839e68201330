// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "attention/kernels.hpp"
#include "attention/mask.hpp"
#include "attention/tensor.hpp"
#include "attention/token_layout.hpp"
#include "comm/all_to_all.hpp"
#include "comm/communicator.hpp"

namespace ringspan::attention {

/// What is to be computed, without saying how; equal on all ranks. Gradients take a logit s as a
/// weight of exp(s - lse), no more than 1, and lse is fp32 (fp64 of fp64): the weight is off by a
/// factor of up to e^(|s| / 2^24), so that logits of 1e5 cost gradients 1 % and those of 1e7 leave
/// them finite and no more. Kernels in fp32 round logits alike.
struct Problem {
  Shape shape;
  Sequence sequence;
  Mask mask;
  std::optional<double> softmax_scale = {};  // default 1 / sqrt(head_dim)
  std::optional<double> softcap = {};        // > 0
  bool sinks = false;                        // one learned logit per query head
};

/// Throws invalid_argument naming the rule that is broken and what would be legal.
void require_valid(const Problem& problem);

/// One rank's shard of the inputs, in problem.shape.dtype. Shapes as in ForwardBlock; sinks
/// [1][1][heads][1] in fp32 on every rank, only with problem.sinks.
struct Inputs {
  ConstTensorView q, k, v;
  ConstTensorView sinks = {};
};

/// One rank's shard of the results. lse (fp32, natural log, [batch][tokens][heads][1]) is optional:
/// leave the view empty. Fully masked rows and padding give out = 0, lse = -inf.
struct Outputs {
  TensorView out;  // [batch][tokens][heads][value_dim], shape.dtype
  TensorView lse = {};
  /// Judged by the shape: where there are no tokens there may be no memory, either.
  bool wants_lse() const { return lse.batch > 0; }
};

/// Shaped as q, k, v; in shape.dtype or in an accumulator, of the dtype or of the shape. They are
/// overwritten. Sums over the whole sequence: each rank has the complete gradient of its tokens;
/// d_sinks (fp32) is the sum over all ranks of the schedule's communicator, on every rank. (Ulysses
/// sends complete gradients in shape.dtype: there, asking for more gives no more digits.)
struct Gradients {
  TensorView dq, dk, dv;
  TensorView d_sinks = {};
};

/// What a forward pass leaves for its backward pass (an autograd context); one per layer in flight.
/// With the output it is all that has to be kept: a trainer that recomputes a layer makes q, k and
/// v again and goes on with backward(), so that attention, with its messages, runs forward once
/// (DISTFLASHATTN's rematerialisation-aware checkpoints).
class Saved {
 public:
  virtual ~Saved() = default;
};

/// A schedule bound to one problem: owns tiles, buffers and collective set-up, so that forward and
/// backward neither allocate device memory nor synchronise. Collective: every rank of the
/// communicator makes the same calls in the same order. Inputs are checked before anything moves.
class Plan {
 public:
  virtual ~Plan() = default;

  virtual std::unique_ptr<Saved> make_saved() = 0;

  /// `saved` (from make_saved of this plan) is filled for backward(); null when there will be none.
  virtual void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) = 0;

  /// inputs and outputs.out are those of the forward pass that filled `saved`; the same values in
  /// other memory will do.
  virtual void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                        const ConstTensorView& d_out, const Gradients& gradients) = 0;

  /// What a Saved remembers its plan by: shared, because the address of a plan is used again.
  const std::shared_ptr<const void>& identity() const { return identity_; }

 private:
  std::shared_ptr<const void> identity_ = std::make_shared<char>();
};

/// A way to compute attention over a sequence whose tokens lie on several ranks. One file per
/// schedule in attention/schedules/.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// The tokens that this rank must pass in, in storage order.
  virtual Shard shard(const Sequence& sequence) const = 0;

  /// Throws invalid_argument for what it cannot do, the same on all ranks of the schedule.
  virtual void require_possible(const Problem& problem) const = 0;

  /// Collective. Refuses what is not possible before anything is allocated.
  virtual std::unique_ptr<Plan> plan(const Problem& problem) = 0;
};

/// What goes around a ring in the backward pass: K, V and their gradients, or the query side (q,
/// d_out, lse, delta) and dq (BurstAttention); or whichever is fewer bytes over all ranks.
enum class BackwardForm { kv, q, automatic };
std::string_view name(BackwardForm form);
BackwardForm backward_form(
    std::string_view name);  // throws invalid_argument, listing the known names

/// K and V travel around the ring; the layout makes it ring, striped or zigzag attention.
std::unique_ptr<Schedule> make_ring(comm::Communicator comm, Kernels& kernels, LayoutKind layout,
                                    BackwardForm backward = BackwardForm::kv);

/// The same around inner rings of `inner_ring` ranks and an outer one across (LoongTrain). 0: the
/// ranks of one node. Collective.
std::unique_ptr<Schedule> make_double_ring(comm::Communicator comm, Kernels& kernels,
                                           LayoutKind layout, int inner_ring,
                                           BackwardForm backward = BackwardForm::kv);

/// K and V travel around the ring both ways, each way past half of the ranks.
std::unique_ptr<Schedule> make_bidirectional_ring(comm::Communicator comm, Kernels& kernels,
                                                  LayoutKind layout);

/// K and V of all ranks are gathered first (Llama 3); the gradients are reduce-scattered.
std::unique_ptr<Schedule> make_all_gather_kv(comm::Communicator comm, Kernels& kernels,
                                             LayoutKind layout);

/// DISTFLASHATTN: blocks go straight to the ranks that use them, and ranks that the mask leaves
/// without work compute for others. Contiguous shards.
std::unique_ptr<Schedule> make_dist_flash(comm::Communicator comm, Kernels& kernels);

/// ColossalAI's Ring Self-Attention: keys go around the ring, then values; the scores of all tokens
/// with this rank's stay in memory, in accumulator(dtype), those of a forward pass in its Saved.
/// For kernels that have scores().
std::unique_ptr<Schedule> make_ring_self_attention(comm::Communicator comm, Kernels& kernels,
                                                   LayoutKind layout);

/// Each rank fetches just those keys and values of others that its window sees; masks without one
/// are refused. Contiguous shards.
std::unique_ptr<Schedule> make_halo(comm::Communicator comm, Kernels& kernels);

/// Heads <-> tokens all-to-all in `comm` around `inner`, each rank's heads attending over the inner
/// shard that the group shares. Every inner schedule works; over a one-rank ring this is plain
/// Ulysses. Heads go through it in as many groups, or as the rank with the fewest heads has: while
/// attention works on one, the next moves in and the one before moves out. A Saved holds the heads'
/// q, k, v and out, or, where the backward pass resends these, nothing but what `inner` saves.
std::unique_ptr<Schedule> make_ulysses(comm::Communicator comm, Kernels& kernels,
                                       std::unique_ptr<Schedule> inner,
                                       comm::AllToAllAlgorithm algorithm, int head_groups = 1,
                                       bool resends = false);

/// Which of the two dimensions of usp stays inside a NUMA domain or node; the other goes across.
enum class Placement { ulysses_inner, ring_inner };
std::string_view name(Placement placement);
Placement placement(std::string_view name);  // throws invalid_argument, listing the known names

struct ScheduleOptions {
  /// ring, all_gather_kv and the ring inside ulysses and usp; unset: what the name implies (striped
  /// and zigzag theirs, ring and ulysses contiguous, usp and all_gather_kv zigzag).
  std::optional<LayoutKind> layout = {};
  int ulysses_degree = 0;  // usp only; divides the ranks. 0: ranks of one node
  Placement placement = Placement::ulysses_inner;
  comm::AllToAllAlgorithm all_to_all = comm::AllToAllAlgorithm::direct;
  /// Ranks of an inner ring; divides those of the ring. 0: double_ring those of one node, usp one
  /// ring.
  int inner_ring = 0;
  BackwardForm backward = BackwardForm::kv;
  int head_groups = 0;  // ulysses_overlapped and usp. 0: what the name implies
  /// ulysses, ulysses_overlapped and usp: the backward pass sends q, k, v and out to the heads
  /// again instead of keeping them there, so that a Saved is as small as a ring's.
  bool resends = false;
};

/// A named combination of the above, and what it leaves to ScheduleOptions.
struct ScheduleEntry {
  std::string_view name;
  std::string_view summary;
  LayoutKind layout = LayoutKind::contiguous;  // where the options leave it open
  bool takes_layout = true;                    // false: no layout but the above
  bool takes_ulysses_degree = false;           // and a placement
  bool takes_all_to_all = false;
  bool takes_inner_ring = false;
  bool takes_backward = false;
  int head_groups = 0;  // where the options leave it open; 0: not to be chosen
};

/// ring, striped, zigzag, ulysses, ulysses_overlapped, usp, all_gather_kv, dist_flash, double_ring,
/// bidirectional_ring, ring_self_attention, halo.
std::span<const ScheduleEntry> schedules();

/// Throws invalid_argument, listing the known names.
const ScheduleEntry& schedule_entry(std::string_view name);

/// Collective (usp splits the communicator). `kernels` must outlive the schedule. Throws
/// invalid_argument for unknown names, listing the known ones, and for options that the schedule
/// does not have.
std::unique_ptr<Schedule> make_schedule(std::string_view name, const comm::Communicator& comm,
                                        Kernels& kernels, const ScheduleOptions& options = {});

}  // namespace ringspan::attention
