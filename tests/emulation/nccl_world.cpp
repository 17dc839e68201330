// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/nccl_world.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <utility>

namespace emulation {
namespace {

using ringspan::comm::nccl::UniqueId;

constexpr std::size_t kBuffer = std::size_t{256} << 10;  // bytes of a lane
constexpr long kLongestNap = 5'000'000;                  // nanoseconds; some ring no more
constexpr time_t kLongestLock = 1;  // seconds; who has it for longer is a process that was stopped

/// The content of an id.
struct Name {
  std::uint64_t number = 0;  // no two are alike, on any host
  pid_t process = 0;
  int file = -1;
};
static_assert(sizeof(Name) <= sizeof(UniqueId));

std::uint64_t new_number() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

/// Worlds of this process: until somebody has joined, it has them itself.
struct Worlds {
  struct Known {
    std::shared_ptr<World> waiting;
    std::weak_ptr<World> joined;
  };

  std::mutex mutex;
  std::map<std::uint64_t, Known> by_number;
};

Worlds& worlds() {
  static Worlds* const all = new Worlds;
  return *all;
}

std::string title(std::uint64_t number) { return "emulated-nccl-" + std::to_string(number); }

// Hosts that are namespaces see each other's files in a folder that both have.
const char* folder() { return std::getenv("RINGSPAN_EMULATED_NCCL_FOLDER"); }
std::string path_of(std::uint64_t number) { return std::string(folder()) + "/" + title(number); }

int create_file(std::uint64_t number) {
  if (!folder()) return memfd_create(title(number).c_str(), MFD_CLOEXEC);
  return open(path_of(number).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

// Its descriptor may be another file by now.
int open_file(const Name& name) {
  if (folder()) return open(path_of(name.number).c_str(), O_RDWR | O_CLOEXEC);
  const std::string path =
      "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.file);
  char target[64] = {};
  if (readlink(path.c_str(), target, sizeof(target) - 1) < 0) return -1;
  if ("/memfd:" + title(name.number) + " (deleted)" != target) return -1;
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace

struct World::Header {
  pthread_mutex_t mutex;
  std::uint32_t changes;
  int joined, finalized;
  std::uint64_t gpus;  // a bit each
};

/// One message at a time.
struct World::Lane {
  struct Side {
    bool posted, over;
    std::size_t bytes;
  } sides[2];  // [sends]
  std::size_t filled, drained;
};

std::shared_ptr<World> World::map(int file) {
  static_assert(kMostRanks <= 64);
  const std::size_t bytes =
      sizeof(Header) + std::size_t{kMostRanks} * kMostRanks * (sizeof(Lane) + kBuffer);
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  return memory == MAP_FAILED ? nullptr : std::shared_ptr<World>(new World(file, bytes, memory));
}

World::~World() {
  munmap(memory_, bytes_);
  close(file_);
}

std::shared_ptr<World> World::create(UniqueId& id) {
  Name name{new_number(), getpid(), -1};
  name.file = create_file(name.number);
  const std::shared_ptr<World> world = map(name.file);
  if (!world) return nullptr;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&world->header().mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  std::memcpy(id.bytes, &name, sizeof(name));
  const std::lock_guard lock(worlds().mutex);
  worlds().by_number[name.number] = {world, world};
  return world;
}

std::shared_ptr<World> World::find(const UniqueId& id) {
  Name name;
  std::memcpy(&name, id.bytes, sizeof(name));
  {
    const std::lock_guard lock(worlds().mutex);
    const auto found = worlds().by_number.find(name.number);
    if (found != worlds().by_number.end()) {
      const std::shared_ptr<World> waiting = std::move(found->second.waiting);
      return found->second.joined.lock();
    }
  }
  const int file = open_file(name);
  return file < 0 ? nullptr : map(file);
}

World::Header& World::header() const { return *reinterpret_cast<Header*>(memory_); }

World::Lane& World::lane(const Half& half) const {
  return reinterpret_cast<Lane*>(memory_ + sizeof(Header))[half.from * kMostRanks + half.to];
}

std::byte* World::buffer(const Half& half) const {
  constexpr std::size_t kFirst = sizeof(Header) + kMostRanks * kMostRanks * sizeof(Lane);
  return memory_ + kFirst + (half.from * kMostRanks + half.to) * kBuffer;
}

void World::lock() {
  own_.lock();
  timespec latest{};
  clock_gettime(CLOCK_REALTIME, &latest);
  if (!owner_stopped_) latest.tv_sec += kLongestLock;
  const int status = pthread_mutex_timedlock(&header().mutex, &latest);
  if (status == EOWNERDEAD) pthread_mutex_consistent(&header().mutex);
  owner_stopped_ = status == ETIMEDOUT;
  locked_ = !owner_stopped_;
}

void World::unlock() {
  if (locked_) pthread_mutex_unlock(&header().mutex);
  own_.unlock();
}

void World::wait(const std::function<bool()>& condition) {
  std::atomic_ref changes(header().changes);
  while (!condition()) {
    const std::uint32_t seen = changes.load();
    unlock();
    const timespec nap{0, kLongestNap};
    syscall(SYS_futex, &header().changes, FUTEX_WAIT, seen, &nap, nullptr, 0);
    lock();
  }
}

void World::ring() {
  std::atomic_ref(header().changes).fetch_add(1);
  syscall(SYS_futex, &header().changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool World::join(int gpu) {
  const std::uint64_t bit = std::uint64_t{1} << gpu;
  const bool alone = (header().gpus & bit) == 0;
  header().gpus |= bit;
  ++header().joined;
  ring();
  return alone;
}

int World::joined() const { return header().joined; }
void World::finalize() { ++header().finalized; }
int World::finalized() const { return header().finalized; }

bool World::advance(Half& half) {
  Lane& lane = this->lane(half);
  Lane::Side &own = lane.sides[half.sends], &other = lane.sides[!half.sends];
  bool moved = false;
  if (!half.posted && !own.posted) {
    own = {true, false, half.bytes};
    half.posted = moved = true;
  }
  if (!half.posted || half.over || !other.posted || other.bytes != half.bytes) return moved;
  if (half.sends && lane.filled == lane.drained && lane.filled < half.bytes) {
    const std::size_t piece = std::min(kBuffer, half.bytes - lane.filled);
    std::memcpy(buffer(half), half.data + lane.filled, piece);
    lane.filled += piece;
    moved = true;
  } else if (!half.sends && lane.filled > lane.drained) {
    std::memcpy(half.data + lane.drained, buffer(half), lane.filled - lane.drained);
    lane.drained = lane.filled;
    moved = true;
  }
  if (lane.drained < half.bytes) return moved;
  half.over = own.over = true;
  if (other.over) lane = {};
  return true;
}

void World::withdraw(Half& half) {
  if (!half.posted || half.over) return;
  Lane& lane = this->lane(half);
  if (lane.sides[!half.sends].over) {
    lane = {};  // it has moved, and only this side has not seen it
  } else {
    lane.sides[half.sends] = {};
    lane.filled = lane.drained = 0;
  }
}

}  // namespace emulation
