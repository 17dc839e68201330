// SPDX-License-Identifier: Apache-2.0
// Messages that are part of a graph. Where it is captured the transfer stream joins the capture by
// the event of a post, and is joined back by that of the wait; ranks compare their halves, under
// names of their own, for what one captures the other must. At each launch they do so anew, in one
// order with all other posts, so that sizes, orders and ranks that stay away are found as ever.
#include <algorithm>
#include <iterator>

#include "comm/devices/cuda/executable.hpp"
#include "comm/transports/streams/engine.hpp"

namespace ringspan::comm::streams {
namespace {

bool holds_any(const cuda::CudaDevice& device, std::span<const Send> sends,
               std::span<const Recv> recvs) {
  const auto values = [&](const auto& message) { return device.holds_values(message.slice); };
  return std::any_of(sends.begin(), sends.end(), values) ||
         std::any_of(recvs.begin(), recvs.end(), values);
}

}  // namespace

cuda::CudaDevice::Capture Engine::capture() {
  return {[this] { captured_.emplace(); },
          [this](const std::shared_ptr<cuda::Executable>& executable) -> std::function<void()> {
            auto operations = std::make_shared<const Operations>(std::move(*captured_));
            captured_.reset();
            std::erase_if(executables_, [](const auto& other) { return other.expired(); });
            if (executable) executables_.push_back(executable);
            if (hub_->failure()) give_up();  // nothing writes the caller's memory any more
            if (!executable || operations->empty()) return {};
            return [this, executable, operations] { launch(*operations, *executable); };
          }};
}

bool Engine::capturing(std::string_view operation, std::int64_t sequence) {
  return watched(operation, sequence, [this] { return device_.compute().capturing(); });
}

void Engine::require_room_in_graph(std::string_view operation, std::int64_t sequence,
                                   std::span<const Send> sends, std::span<const Recv> recvs) {
  if (!capturing(operation, sequence)) return;
  const std::string_view reason = connection_->why_not_captured();
  RINGSPAN_REQUIRE(reason.empty(), operation, ": messages cannot be part of a graph: ", reason);
  RINGSPAN_REQUIRE(captured_, operation,
                   ": messages cannot be part of a graph that is not a comm::cuda::Graph");
  RINGSPAN_REQUIRE(!holds_any(device_, sends, recvs), operation,
                   ": values cannot be part of a graph; the host looks at them once");
}

void Engine::require_not_in_graph(const Operation& operation) {
  RINGSPAN_REQUIRE(!capturing(operation.name, operation.sequence) && !operation.captured,
                   operation.name,
                   ": test() cannot be part of a graph; nothing runs while it is captured");
}

void Engine::require_same_graph(const Operation& operation) {
  const bool now = capturing(operation.name, operation.sequence);
  RINGSPAN_REQUIRE(now || !operation.captured, operation.name,
                   ": it was posted where a graph was captured, and must be waited for there");
  RINGSPAN_REQUIRE(!now || operation.captured, operation.name,
                   ": a wait for what was posted before cannot be part of a graph");
}

void Engine::launch(const Operations& operations, cuda::Executable& executable) {
  require_working();
  const Operation& first = *operations.front();
  RINGSPAN_REQUIRE(!capturing(first.name, -1),
                   "a graph with messages cannot be part of another graph");
  hub_->set_waiting(rank_, {});
  hub_->beat(rank_);
  watched(first.name, -1, [&] {
    const auto all = std::make_shared<Operation>(gpu_);
    for (const std::shared_ptr<Operation>& operation : operations) post_again(operation, *all);
    all->channel = first.channel;
    all->sequence = first.sequence;
    all->name = first.name;
    posting_ = all;
    queue(*all, executable);
    in_flight_.push_back(std::exchange(posting_, nullptr));
    retire();
  });
}

void Engine::post_again(const std::shared_ptr<Operation>& operation, Operation& all) {
  const std::vector<int>& members = operation->channel->members;
  const auto own = std::find(members.begin(), members.end(), rank_) - members.begin();
  operation->sequence = operation->channel->posted[own]++;
  operation->name.replace(0, operation->name.find(' '), "launch");
  all.records.push_back(
      recorder_.post({operation->channel->id, operation->sequence, operation->name}));
  for (Message& message : operation->sends) {
    message.number = sent_[message.peer]++;
    recorder_.sends(message.peer, message.slice.bytes());
  }
  for (Message& message : operation->recvs) {
    message.number = awaited_[message.peer]++;
    recorder_.receives(message.peer, message.slice.bytes());
  }
  posting_ = operation;
  announce(*operation);
  count(*operation);
  std::copy(operation->sends.begin(), operation->sends.end(), std::back_inserter(all.sends));
  std::copy(operation->recvs.begin(), operation->recvs.end(), std::back_inserter(all.recvs));
}

// Behind what the transfer stream holds already, for on all ranks messages are in one order.
void Engine::queue(Operation& all, cuda::Executable& executable) {
  const std::lock_guard lock(queueing_);
  require_working();
  transfer_->record(all.ready);
  device_.compute().wait(all.ready);
  device_.compute().record(all.ready);
  executable.launch(device_.compute());
  device_.compute().record(all.over);
}

void Engine::let_go_of_graphs() {
  for (const auto& executable : executables_)
    if (const auto here = executable.lock()) here->let_go();
  executables_.clear();
}

}  // namespace ringspan::comm::streams
