// SPDX-License-Identifier: Apache-2.0
// Llama 3's context parallelism: every rank gathers the keys and values of all, in the order of the
// ranks' shards, and attends over them with its own queries. The gradients of keys and values are
// summed where their tokens are. Nothing overlaps, but masks and sizes never cost a hop.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "attention/schedules/stationary_queries.hpp"
#include "comm/collectives.hpp"

namespace ringspan::attention {
namespace {

/// One block per rank, one behind the other in one piece of memory.
struct BlocksOfAll {
  BlocksOfAll(comm::Device& device, const KvFormat& format, std::span<const std::int64_t> tokens) {
    std::int64_t bytes = 0;
    for (const std::int64_t count : tokens) bytes += format.bytes(count);
    const comm::Buffer memory = device.allocate(bytes);
    std::int64_t offset = 0;
    for (const std::int64_t count : tokens) {
      parts.push_back(comm::slice(memory, offset, format.bytes(count)));
      blocks.push_back(format.block(memory.data() + offset, count));
      offset += format.bytes(count);
    }
  }

  std::vector<comm::Slice> parts;
  std::vector<KvBlock> blocks;
};

class AllGatherKvPlan final : public Plan {
 public:
  AllGatherKvPlan(comm::Communicator comm, Kernels& kernels, ShardContract contract,
                  std::vector<std::int64_t> tokens, std::vector<std::vector<Tile>> tiles)
      : comm_(std::move(comm)),
        kernels_(kernels),
        tokens_(std::move(tokens)),
        tiles_(std::move(tiles)),
        queries_(comm_, kernels, std::move(contract)),
        gathered_(comm_.device(), {shape(), shape().dtype}, tokens_) {}

  std::unique_ptr<Saved> make_saved() override {
    if (!gradients_) {
      const KvFormat format{shape(), accumulator(shape())};
      gradients_.emplace(comm_.device(), format, tokens_);
      staging_ =
          comm_.device().allocate(format.bytes(*std::max_element(tokens_.begin(), tokens_.end())));
    }
    return queries_.make_saved(*this);
  }

  void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) override {
    queries_.begin_forward(*this, inputs, outputs, saved);
    gather(inputs);
    for (int owner = 0; owner < comm_.size(); ++owner) {
      queries_.attend(view(owner), tiles_[owner]);
    }
    queries_.end_forward();
  }

  void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                const ConstTensorView& d_out, const Gradients& gradients) override {
    queries_.begin_backward(*this, inputs, outputs, saved, d_out, gradients);
    gather(inputs);
    for (int owner = 0; owner < comm_.size(); ++owner) {
      const KvBlock& share = gradients_->blocks[owner];
      fill_with_zeros(share);
      queries_.differentiate(view(owner), tiles_[owner], share);
    }
    comm::reduce_scatter(comm_, gradients_->parts, element(accumulator(shape())),
                         comm::Reduction::sum, staging_);
    const KvBlock& own = gradients_->blocks[comm_.rank()];
    kernels_.copy(own.k, gradients.dk);
    kernels_.copy(own.v, gradients.dv);
    queries_.end_backward();
  }

 private:
  const Shape& shape() const { return queries_.shape(); }

  void gather(const Inputs& inputs) {
    const KvBlock& own = gathered_.blocks[comm_.rank()];
    kernels_.copy(inputs.k, own.k);
    kernels_.copy(inputs.v, own.v);
    comm::all_gather(comm_, gathered_.parts);
  }

  KvView view(int owner) const { return {gathered_.blocks[owner].k, gathered_.blocks[owner].v}; }

  void fill_with_zeros(const KvBlock& block) {
    kernels_.fill(block.k, 0);
    kernels_.fill(block.v, 0);
  }

  comm::Communicator comm_;
  Kernels& kernels_;
  std::vector<std::int64_t> tokens_;      // [owner]
  std::vector<std::vector<Tile>> tiles_;  // [owner]
  StationaryQueries queries_;
  BlocksOfAll gathered_;
  std::optional<BlocksOfAll> gradients_;  // and this, once there is a Saved
  comm::Buffer staging_;
};

class AllGatherKv final : public Schedule {
 public:
  AllGatherKv(comm::Communicator comm, Kernels& kernels, LayoutKind layout)
      : comm_(std::move(comm)), kernels_(kernels), layout_(layout) {}

  Shard shard(const Sequence& sequence) const override {
    return attention::shard(layout_, sequence, comm_.size(), comm_.rank());
  }

  void require_possible(const Problem& problem) const override {
    require_possible_in(layout_, problem, comm_.size());
  }

  std::unique_ptr<Plan> plan(const Problem& problem) override {
    require_possible(problem);
    kernels_.prepare(problem.shape);
    const std::vector<Shard> shards = attention::shards(layout_, problem.sequence, comm_.size());
    std::vector<std::int64_t> counts;
    std::vector<std::vector<Tile>> tiles;
    for (const Shard& keys : shards) {
      counts.push_back(tokens(keys));
      tiles.push_back(visible_tiles(shards[comm_.rank()], keys, problem.sequence, problem.mask));
    }
    return std::make_unique<AllGatherKvPlan>(
        comm_, kernels_, layout_contract(problem, layout_, comm_.size(), comm_.rank()),
        std::move(counts), std::move(tiles));
  }

 private:
  comm::Communicator comm_;
  Kernels& kernels_;
  LayoutKind layout_;
};

}  // namespace

std::unique_ptr<Schedule> make_all_gather_kv(comm::Communicator comm, Kernels& kernels,
                                             LayoutKind layout) {
  return std::make_unique<AllGatherKv>(std::move(comm), kernels, layout);
}

}  // namespace ringspan::attention
