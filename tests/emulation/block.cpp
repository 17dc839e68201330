// SPDX-License-Identifier: Apache-2.0
// Each thread runs until it meets a collective operation, and says which one. When none can run on,
// warps that are complete at one operation carry it out; when there are none, the barrier of a
// complete block opens; when it is not complete, the kernel diverges.
#include "tests/emulation/block.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "attention/kernels/scalar.hpp"
#include "tests/emulation/fiber.hpp"
#include "tests/emulation/warp.hpp"

namespace ringspan::emulation {
namespace {

using attention::cuda::Index3;

constexpr std::string_view kBarrier = "sync_threads";

struct AsyncCopy {
  void* to;
  const void* from;
  bool present;
};

struct Thread {
  std::unique_ptr<Fiber> fiber;
  std::string_view waits_at = {};  // an operation by its name; none: can run
  Operation operation = nullptr;
  void* operands = nullptr;
  std::deque<std::vector<AsyncCopy>> copies = std::deque<std::vector<AsyncCopy>>(1);  // by group
};

class Block {
 public:
  Block(Index3 index, unsigned threads, std::size_t shared_bytes,
        const std::function<void()>& kernel)
      : index(index), shared(shared_bytes / sizeof(Vector) + 1), threads_(threads) {
    std::memset(shared.data(), 0xff, shared.size() * sizeof(Vector));
    for (Thread& thread : threads_) thread.fiber = std::make_unique<Fiber>(kernel);
  }

  void run() {
    do {
      for (unsigned t = 0; t < threads_.size(); ++t) {
        if (threads_[t].fiber->ended() || !threads_[t].waits_at.empty()) continue;
        current = t;
        threads_[t].fiber->resume();
      }
    } while (open_warps() || open_barrier());
    if (!std::ranges::all_of(threads_, [](const Thread& t) { return t.fiber->ended(); })) {
      throw std::runtime_error(divergence());
    }
  }

  Thread& thread() { return threads_[current]; }

  /// Called by a thread: returns when its warp, or for the barrier its block, has been there.
  void meet(std::string_view name, Operation operation, void* operands) {
    Thread& self = thread();
    self.waits_at = name, self.operation = operation, self.operands = operands;
    self.fiber->suspend();
  }

  struct alignas(16) Vector {
    std::byte bytes[16];
  };

  const Index3 index;
  std::vector<Vector> shared;
  unsigned current = 0;

 private:
  static bool together(std::span<const Thread> threads) {
    return std::ranges::all_of(threads, [&](const Thread& t) {
      return !t.waits_at.empty() && t.waits_at == threads[0].waits_at;
    });
  }

  bool open_warps() {
    bool opened = false;
    for (std::size_t first = 0; first < threads_.size(); first += kLanes) {
      const std::span warp = std::span(threads_).subspan(
          first, std::min<std::size_t>(kLanes, threads_.size() - first));
      if (!together(warp) || warp[0].waits_at == kBarrier) continue;
      std::vector<void*> lanes;
      for (const Thread& t : warp) lanes.push_back(t.operands);
      warp[0].operation(lanes);
      for (Thread& t : warp) t.waits_at = {};
      opened = true;
    }
    return opened;
  }

  bool open_barrier() {
    if (!together(threads_) || threads_[0].waits_at != kBarrier) return false;
    for (Thread& t : threads_) t.waits_at = {};
    return true;
  }

  std::string divergence() const {
    std::map<std::string_view, std::string> where;
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      where[threads_[t].fiber->ended() ? "the end" : threads_[t].waits_at] +=
          ' ' + std::to_string(t);
    }
    std::string message = "the kernel diverges in block " + std::to_string(index.x) + ',' +
                          std::to_string(index.y) + ',' + std::to_string(index.z) + ':';
    for (const auto& [name, who] : where) {
      message += " at " + std::string(name) + " threads" + who + ';';
    }
    return message;
  }

  std::vector<Thread> threads_;
};

/// The block whose threads run on this thread of the host.
thread_local Block* running = nullptr;

}  // namespace

void launch(Index3 grid, unsigned threads, std::size_t shared_bytes,
            const std::function<void()>& kernel) {
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        Block block({x, y, z}, threads, shared_bytes, kernel);
        running = &block;
        block.run();
      }
    }
  }
}

}  // namespace ringspan::emulation

namespace ringspan::attention::cuda {

using emulation::running;

unsigned thread_index() { return running->current; }
Index3 block_index() { return running->index; }
std::byte* shared_memory() { return running->shared.data()->bytes; }

void sync_threads() { running->meet(emulation::kBarrier, nullptr, nullptr); }
void sync_warp() {
  running->meet(
      "sync_warp", [](std::span<void* const>) {}, nullptr);
}

float shuffle_xor(float value, int mask) {
  emulation::Shuffle operands{value, static_cast<unsigned>(mask)};
  running->meet("shuffle_xor", emulation::shuffle, &operands);
  return operands.received;
}

float atomic_add(float* to, float value) {
  const float before = *to;
  *to += value;
  return before;
}

void copy_async(void* to, const void* from, bool present) {
  if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 16 != 0) {
    throw std::runtime_error("an asynchronous copy is not aligned to 16 bytes");
  }
  running->thread().copies.back().push_back({to, from, present});
}

void commit_copies() { running->thread().copies.emplace_back(); }

void wait_copies(int pending) {
  auto& groups = running->thread().copies;  // the last one is still open
  while (std::ssize(groups) - 1 > pending) {
    for (const emulation::AsyncCopy& copy : groups.front()) {
      if (copy.present) {
        std::memcpy(copy.to, copy.from, 16);
      } else {
        std::memset(copy.to, 0, 16);
      }
    }
    groups.pop_front();
  }
}

void load_matrices(const void* row, std::uint32_t (&to)[4]) {
  emulation::Matrices operands{row, to};
  running->meet("load_matrices", emulation::load<false>, &operands);
}

void load_transposed(const void* row, std::uint32_t (&to)[4]) {
  emulation::Matrices operands{row, to};
  running->meet("load_transposed", emulation::load<true>, &operands);
}

template <Half kHalf>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  emulation::Product operands{c, a, {b0, b1}};
  running->meet("multiply_add", emulation::multiply<kHalf>, &operands);
}

template <Half kHalf>
std::uint32_t pack(float low, float high) {
  if constexpr (kHalf == Half::bf16) return to_bf16(low).bits | to_bf16(high).bits << 16;
  return to_f16(low).bits | to_f16(high).bits << 16;
}

template void multiply_add<Half::bf16>(float (&)[4], const std::uint32_t (&)[4], std::uint32_t,
                                       std::uint32_t);
template void multiply_add<Half::f16>(float (&)[4], const std::uint32_t (&)[4], std::uint32_t,
                                      std::uint32_t);
template std::uint32_t pack<Half::bf16>(float, float);
template std::uint32_t pack<Half::f16>(float, float);

}  // namespace ringspan::attention::cuda
