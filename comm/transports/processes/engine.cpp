// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/engine.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "comm/devices/cuda/host_clock.hpp"
#include "comm/devices/host.hpp"
#include "comm/transports/diagnosis/clock.hpp"

namespace ringspan::comm::processes {

namespace {

std::unique_ptr<GpuSide> gpu_side(Device& device, const Wire& wire) {
  auto* const gpu = dynamic_cast<cuda::CudaDevice*>(&device);
  return gpu ? std::make_unique<GpuSide>(*gpu, wire.reaches_gpus()) : nullptr;
}

}  // namespace

Engine::Engine(std::shared_ptr<Wire> wire, const LaunchOptions& options,
               std::shared_ptr<const World> world, bool crowded, std::unique_ptr<Device> device)
    : wire_(std::move(wire)),
      options_(options),
      world_(std::move(world)),
      rank_(wire_->rank()),
      crowded_(crowded),
      device_(std::move(device)),
      gpu_(gpu_side(*device_, *wire_)),
      peers_(*wire_, options.ranks),
      recorder_(rank_),
      sent_(options.ranks),
      awaited_(options.ranks),
      random_(options.debug.seed + rank_) {
  device_->on_poll([this] { poll(); });
  if (auto* const device = dynamic_cast<cuda::CudaDevice*>(device_.get()))
    device->on_wait([this](const auto& done, double longest) { wait_for_gpu(done, longest); });
}

// Memory that the network still holds is never freed: it might be written when it is someone
// else's.
Engine::~Engine() {
  device_->on_poll({});
  if (auto* const device = dynamic_cast<cuda::CudaDevice*>(device_.get())) device->on_wait({});
  for (auto& operation : active_) abandoned_.push_back(std::move(operation));
  for (auto& operation : abandoned_) {
    if (let_go(*operation)) continue;
    for (Direction* direction : {&operation->sends, &operation->recvs}) direction->parts.clear();
    static_cast<void>(new std::shared_ptr<Operation>(std::move(operation)));
  }
}

void Engine::wait(Operation& operation) {
  delay_for_debugging();
  block(operation);
  finish(operation);
}

bool Engine::test(Operation& operation, Patience& patience) {
  progress();
  if (operation.done()) {
    finish(operation);
    return true;
  }
  require_working();
  require_hope(operation, patience);
  return false;
}

void Engine::finish(const Operation& operation) {
  if (gpu_) gpu_->finished();
  peers_.set_waiting({});
  peers_.beat();
  recorder_.done(operation.record);
}

void Engine::poll() {
  peers_.set_waiting({});
  peers_.beat();
  progress();
  require_working();
}

// Others may wait for what this rank has posted, so it is moved meanwhile.
void Engine::wait_for_gpu(const std::function<bool()>& done, double deadline) {
  const std::int64_t start = diagnosis::steady_now();
  while (!done()) {
    poll();
    const double waited = 1e-9 * static_cast<double>(diagnosis::steady_now() - start);
    if (waited > deadline)
      fail_with(
          {ErrorKind::timeout,
           concat("rank ", rank_, ": what is queued on its GPU has not ended in ", deadline, " s"),
           Error::Where{rank_, rank_, "synchronize"}});
    std::this_thread::sleep_for(std::chrono::duration<double>(cuda::nap_after(waited)));
  }
  require_working();
}

// Also after a failure elsewhere: what has arrived is delivered.
void Engine::progress() {
  wire_->progress();
  peers_.progress();
  if (closed_) return;
  try {
    start_queued();
    for (const auto& operation : active_) advance(*operation, false);
  } catch (const Error&) {
    require_working();  // a peer may have told the cause before it went
    throw;
  }
  retire();
}

// Keeps a few of those that have ended, to be used again.
void Engine::retire() {
  constexpr std::size_t kKept = 16;
  for (std::size_t i = 0; i < active_.size();) {
    if (!active_[i]->done()) {
      ++i;
      continue;
    }
    if (ended_.size() < kKept) ended_.push_back(active_[i]);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Unless `thoroughly`, looks no further than the first part that is not done: an operation is as
// late as its last part, and every look costs a call of the network library.
void Engine::advance(Operation& operation, bool thoroughly) {
  for (Direction* direction : {&operation.recvs, &operation.sends}) {
    for (std::size_t i = direction->first; i < direction->parts.size(); ++i) {
      Part& part = direction->parts[i];
      if (part.transfer && part.transfer->done()) complete(operation, *direction, part);
      if (part.transfer && !thoroughly) break;
    }
    while (!direction->done() && !direction->parts[direction->first].transfer) ++direction->first;
  }
}

void Engine::complete(Operation& operation, const Direction& direction, Part& part) {
  Message& message = *part.message;
  const bool received = &direction == &operation.recvs;
  if (received) require_agreement(operation, part);
  part.transfer.reset();
  peers_.beat();
  if (--message.missing > 0) return;
  if (received) deliver(operation, message);
  message.slice.buffer = {};
  message.staging = {};
}

void Engine::deliver(const Operation& operation, const Message& message) {
  delay_for_debugging();
  const std::int64_t bytes = message.slice.bytes();
  if (message.packed() && gpu_) {
    gpu_->unpack(message.slice, message.staging);
  } else if (message.packed()) {
    copy_slice(message.slice, slice(message.staging, 0, bytes));
  }
  if (message.peer != rank_) traffic_.bytes_copied += bytes;
  peers_.heard_of(*operation.channel, message.peer, operation.sequence);
  peers_.beat();
}

std::shared_ptr<Channel> Engine::join(std::int64_t id, std::vector<int> members, int own) {
  if (id >= wire_->tags())
    throw Error(ErrorKind::not_available,
                concat("group: this launch has used up the ", wire_->tags(), " groups that its ",
                       "transport can tell apart; groups are made once and kept"));
  next_channel_ = std::max(next_channel_, id + 1);
  auto channel = std::make_shared<Channel>(id, std::move(members), own);
  peers_.join(channel);
  return channel;
}

// It is never started, or no further.
void Engine::give_up(Operation& operation, const Error& cause) {
  abandon(operation, true);
  fail_with(cause);
}

void Engine::fail_with(const Error& cause) {
  peers_.fail({cause, cause});
  peers_.progress();  // tells the others
  require_working();
  throw cause;
}

void Engine::require_working() {
  if (dropped_) peers_.fail({*dropped_, *dropped_});
  peers_.failure().rethrow(rank_);
}

void Engine::abandon(Operation& operation, bool unwinding) {
  const auto own = std::find_if(active_.begin(), active_.end(),
                                [&](const auto& active) { return active.get() == &operation; });
  if (operation.done() || own == active_.end()) return;
  closed_ = true;
  const std::shared_ptr<Operation> kept = *own;
  active_.erase(own);
  if (!let_go(operation)) abandoned_.push_back(kept);
  if (!dropped_) {
    dropped_.emplace(ErrorKind::peer_failed,
                     concat("rank ", rank_, " dropped the pending request of operation ",
                            operation.sequence, ", ", operation.name),
                     Error::Where{rank_, rank_, operation.name, operation.sequence});
  }
  if (!unwinding) peers_.fail({*dropped_, *dropped_});
}

// True if the wire has nothing of it any more.
bool Engine::let_go(Operation& operation) {
  bool all = true;
  for (Direction* direction : {&operation.sends, &operation.recvs}) {
    for (Part& part : direction->parts) {
      if (!part.transfer) continue;
      if (part.transfer->cancel()) {
        part.transfer.reset();
      } else {
        all = false;
      }
    }
  }
  return all;
}

void Engine::delay_for_debugging() {
  const double longest = options_.debug.max_delay;
  if (longest <= 0) return;
  std::uniform_real_distribution<double> seconds(0, longest);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds(random_)));
}

}  // namespace ringspan::comm::processes
