// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "comm/transports/nccl/api.hpp"

namespace emulation {

/// What the ranks of one unique id share, threads or processes: memory that the process of the id
/// has a descriptor of. A message goes through a buffer of its lane, piece by piece.
class World {
 public:
  static constexpr int kMostRanks = 64;

  /// Null: there is no memory for it.
  static std::shared_ptr<World> create(ringspan::comm::nccl::UniqueId& id);
  /// Null: the process that made the id, or all that had joined there, are gone.
  static std::shared_ptr<World> find(const ringspan::comm::nccl::UniqueId& id);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Whoever dies with the lock leaves all as it is. From a process that is stopped with it, which
  /// no NCCL would notice, the others go on without: nothing moves any more, but they may give up.
  void lock();
  void unlock();
  /// Under the lock, which it lets go of meanwhile: until the condition holds. Others ring when
  /// they have changed something.
  void wait(const std::function<bool()>& condition);
  void ring();

  // Under the lock:
  /// False if another rank has that GPU.
  bool join(int gpu);
  int joined() const;
  void finalize();
  int finalized() const;

  /// One half of a message, in the order of its lane's side.
  struct Half {
    int from = 0, to = 0;
    bool sends = false;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool posted = false, over = false;
  };
  /// Goes on with it as far as the other side has come; true if something has moved. Halves that
  /// differ in size do not.
  bool advance(Half& half);
  /// It is given up.
  void withdraw(Half& half);

 private:
  struct Header;
  struct Lane;

  World(int file, std::size_t bytes, void* memory)
      : file_(file), bytes_(bytes), memory_(static_cast<std::byte*>(memory)) {}
  static std::shared_ptr<World> map(int file);
  Header& header() const;
  Lane& lane(const Half& half) const;
  std::byte* buffer(const Half& half) const;

  std::mutex own_;  // of the threads of this process
  // Under that:
  bool owner_stopped_ = false, locked_ = false;
  const int file_;
  const std::size_t bytes_;
  std::byte* const memory_;
};

}  // namespace emulation
