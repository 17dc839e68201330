// SPDX-License-Identifier: Apache-2.0
// Memory that the emulated driver shares between processes: each allocation is a file in memory,
// and a handle names it by the process and the descriptor. Mistakes that the real driver does not
// notice are errors here: the handle of one's own process, or of memory that has been freed.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/emulation/faults.hpp"
#include "tests/emulation/stream.hpp"

using namespace ringspan::comm::cuda;

namespace {

constexpr Status kInvalidValue = 1, kOutOfMemory = 2, kInvalidContext = 201, kNotMapped = 211,
                 kAlreadyRegistered = 712, kNotRegistered = 713, kInvalidHandle = 400;

struct Allocation {
  std::size_t bytes = 0;
  int file = -1;
  std::uint64_t id = 0;
  bool handed_out = false;
};

struct Import {
  std::size_t bytes = 0;
  int opened = 0;
};

/// The content of a handle.
struct Name {
  pid_t process = 0;
  int file = -1;
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(Name) <= sizeof(IpcHandle));

struct Sharing {
  std::mutex mutex;
  std::uint64_t next_id = 1;
  std::map<Address, Allocation> allocations;
  std::map<Address, Import> imports;
  std::map<std::pair<pid_t, std::uint64_t>, Address> open;  // [process, id]
  std::map<void*, std::size_t> registered;
};

Sharing& sharing() {
  static Sharing* const all = new Sharing;
  return *all;
}

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

void* map(int file, std::size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

// Its name says which allocation it is, and one that has been freed is empty.
bool lives(int file, const Name& name) {
  char link[64], target[64] = {}, wanted[64];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  std::snprintf(wanted, sizeof(wanted), "/memfd:emulated-%d (deleted)", static_cast<int>(name.id));
  struct stat status {};
  return readlink(link, target, sizeof(target) - 1) > 0 && std::strcmp(target, wanted) == 0 &&
         fstat(file, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == name.bytes;
}

// The allocation that holds the address; under the mutex.
auto holding(Address address) {
  auto& all = sharing().allocations;
  const auto after = all.upper_bound(address);
  if (after == all.begin()) return all.end();
  const auto found = std::prev(after);
  return address < found->first + found->second.bytes ? found : all.end();
}

}  // namespace

emulation::Mapped emulation::exportable(Address address) {
  const std::lock_guard lock(sharing().mutex);
  const auto found = holding(address);
  if (found == sharing().allocations.end()) return {};
  return {found->first, found->second.bytes, found->second.id, 0};
}

extern "C" {

Status cuMemAlloc_v2(Address* address, std::size_t bytes) {
  if (const Status status = emulation_injected("cuMemAlloc")) return status;
  if (emulation::current_ordinal() < 0) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  const std::lock_guard lock(sharing().mutex);
  const std::uint64_t id = sharing().next_id++;
  char name[32];
  std::snprintf(name, sizeof(name), "emulated-%d", static_cast<int>(id));
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0) return kOutOfMemory;
  void* const data =
      ftruncate(file, static_cast<off_t>(bytes)) == 0 ? map(file, bytes) : MAP_FAILED;
  if (data == MAP_FAILED) {
    close(file);
    return kOutOfMemory;
  }
  *address = reinterpret_cast<Address>(data);
  sharing().allocations[*address] = {bytes, file, id, false};
  return kSuccess;
}

// Waits for nothing.
Status cuMemFree_v2(Address address) {
  if (emulation::release_ordered(address)) return kSuccess;
  const std::lock_guard lock(sharing().mutex);
  const auto found = sharing().allocations.find(address);
  if (found == sharing().allocations.end()) return kInvalidValue;
  munmap(pointer(address), found->second.bytes);
  if (ftruncate(found->second.file, 0) != 0) return kInvalidValue;
  close(found->second.file);
  sharing().allocations.erase(found);
  return kSuccess;
}

Status cuIpcGetMemHandle(IpcHandle* handle, Address address) {
  if (const Status status = emulation_injected("cuIpcGetMemHandle")) return status;
  const std::lock_guard lock(sharing().mutex);
  const auto found = holding(address);
  if (found == sharing().allocations.end()) return kInvalidValue;
  const Name name{getpid(), found->second.file, found->second.id, found->second.bytes};
  std::memcpy(handle->bytes, &name, sizeof(name));
  found->second.handed_out = true;
  return kSuccess;
}

// A second time it is the same address, until closed as often.
Status cuIpcOpenMemHandle_v2(Address* address, IpcHandle handle, unsigned) {
  if (const Status status = emulation_injected("cuIpcOpenMemHandle")) return status;
  if (emulation::current_ordinal() < 0) return kInvalidContext;
  Name name;
  std::memcpy(&name, handle.bytes, sizeof(name));
  if (name.process == getpid()) return kInvalidContext;
  const std::lock_guard lock(sharing().mutex);
  const auto known = sharing().open.find({name.process, name.id});
  if (known != sharing().open.end()) {
    ++sharing().imports[known->second].opened;
    *address = known->second;
    return kSuccess;
  }
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", static_cast<int>(name.process), name.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return kInvalidHandle;
  void* const data = lives(file, name) ? map(file, name.bytes) : MAP_FAILED;
  close(file);
  if (data == MAP_FAILED) return kInvalidHandle;
  *address = reinterpret_cast<Address>(data);
  sharing().imports[*address] = {name.bytes, 1};
  sharing().open[{name.process, name.id}] = *address;
  return kSuccess;
}

Status cuIpcCloseMemHandle(Address address) {
  const std::lock_guard lock(sharing().mutex);
  const auto found = sharing().imports.find(address);
  if (found == sharing().imports.end()) return kNotMapped;
  if (--found->second.opened > 0) return kSuccess;
  munmap(pointer(address), found->second.bytes);
  sharing().imports.erase(found);
  std::erase_if(sharing().open, [&](const auto& entry) { return entry.second == address; });
  return kSuccess;
}

long emulation_imports() {
  const std::lock_guard lock(sharing().mutex);
  return static_cast<long>(sharing().imports.size());
}

bool emulation_handed_out(const void* address) {
  const std::lock_guard lock(sharing().mutex);
  const auto found = holding(reinterpret_cast<Address>(address));
  return found != sharing().allocations.end() && found->second.handed_out;
}

long emulation_exportable() {
  const std::lock_guard lock(sharing().mutex);
  return static_cast<long>(sharing().allocations.size());
}

Status cuMemHostRegister_v2(void* data, std::size_t bytes, unsigned) {
  if (const Status status = emulation_injected("cuMemHostRegister")) return status;
  if (emulation::current_ordinal() < 0) return kInvalidContext;
  const std::lock_guard lock(sharing().mutex);
  return sharing().registered.emplace(data, bytes).second ? kSuccess : kAlreadyRegistered;
}

Status cuMemHostUnregister(void* data) {
  const std::lock_guard lock(sharing().mutex);
  return sharing().registered.erase(data) > 0 ? kSuccess : kNotRegistered;
}

Status cuMemHostGetDevicePointer_v2(Address* address, void* data, unsigned) {
  const std::lock_guard lock(sharing().mutex);
  if (!sharing().registered.contains(data)) return kInvalidValue;
  *address = reinterpret_cast<Address>(data);
  return kSuccess;
}
}
