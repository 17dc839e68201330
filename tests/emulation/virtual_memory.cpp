// SPDX-License-Identifier: Apache-2.0
// Memory of the emulated driver that is mapped: a handle is a file in memory, which other processes
// may be given as a descriptor, or find by a fabric handle. Addresses that nobody was given access
// to cannot be touched.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <span>

#include "tests/emulation/faults.hpp"
#include "tests/emulation/stream.hpp"

using namespace ringspan::comm::cuda;

namespace {

constexpr Status kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kInvalidContext = 201,
                 kInvalidHandle = 400, kNotPermitted = 800;
constexpr std::size_t kGranularity = std::size_t{2} << 20;

struct Memory {
  int file = -1;
  std::size_t bytes = 0;
  std::uint64_t id = 0;  // among those that were created here
  int kinds = 0;
  int owners = 1;  // handles and mappings
};

struct Mapping {
  std::size_t bytes = 0;
  MemoryHandle memory = 0;
  std::uint64_t id = 0;
};

/// The content of a fabric handle.
struct Name {
  pid_t process = 0;
  int file = -1;
  std::size_t bytes = 0;
  std::uint64_t id = 0;
};

struct VirtualMemory {
  std::mutex mutex;
  MemoryHandle next_handle = 1;
  std::uint64_t next_id = std::uint64_t{1} << 32;
  std::map<MemoryHandle, Memory> memories;
  std::map<Address, Mapping> mappings;

  MemoryHandle add(int file, std::size_t bytes, std::uint64_t id, int kinds) {
    memories[next_handle] = {file, bytes, id, kinds};
    return next_handle++;
  }

  void release(MemoryHandle handle) {
    Memory& memory = memories.at(handle);
    if (--memory.owners > 0) return;
    close(memory.file);
    memories.erase(handle);
  }

  std::map<Address, Mapping>::iterator holding(Address address) {
    const auto after = mappings.upper_bound(address);
    if (after == mappings.begin()) return mappings.end();
    const auto found = std::prev(after);
    return address < found->first + found->second.bytes ? found : mappings.end();
  }
};

VirtualMemory& all() {
  static VirtualMemory* const memory = new VirtualMemory;
  return *memory;
}

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

// Its name says which process has created it, and as which.
void write_name(char (&text)[64], int process, std::uint64_t id) {
  std::snprintf(text, sizeof(text), "emulated-mapped-%d-%llu", process,
                static_cast<unsigned long long>(id));
}

bool read_name(int file, int& process, unsigned long long& id) {
  char link[64], target[128] = {};
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  return readlink(link, target, sizeof(target) - 1) > 0 &&
         std::sscanf(target, "/memfd:emulated-mapped-%d-%llu", &process, &id) == 2;
}

}  // namespace

emulation::Mapped emulation::mapped(Address address) {
  const std::lock_guard lock(all().mutex);
  const auto found = all().holding(address);
  if (found == all().mappings.end()) return {};
  const Mapping& mapping = found->second;
  return {found->first, mapping.bytes, mapping.id, all().memories.at(mapping.memory).kinds};
}

extern "C" {

int emulation_create(MemoryHandle* handle, std::size_t bytes, int kinds) {
  if (bytes == 0 || bytes % kGranularity != 0) return kInvalidValue;
  const std::lock_guard lock(all().mutex);
  const std::uint64_t id = all().next_id++;
  char name[64];
  write_name(name, getpid(), id);
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0) return kOutOfMemory;
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    return kOutOfMemory;
  }
  *handle = all().add(file, bytes, id, kinds);
  return kSuccess;
}

long emulation_mappings() {
  const std::lock_guard lock(all().mutex);
  return static_cast<long>(all().mappings.size());
}

Status cuMemAddressReserve(Address* address, std::size_t bytes, std::size_t, Address,
                           unsigned long long) {
  if (bytes == 0 || bytes % kGranularity != 0) return kInvalidValue;
  void* const data =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<Address>(data);
  return kSuccess;
}

Status cuMemAddressFree(Address address, std::size_t bytes) {
  const std::lock_guard lock(all().mutex);
  if (all().holding(address) != all().mappings.end()) return kInvalidValue;
  return munmap(pointer(address), bytes) == 0 ? kSuccess : kInvalidValue;
}

Status cuMemMap(Address address, std::size_t bytes, std::size_t offset, MemoryHandle handle,
                unsigned long long) {
  if (const Status status = emulation_injected("cuMemMap")) return status;
  const std::lock_guard lock(all().mutex);
  const auto found = all().memories.find(handle);
  if (offset != 0 || found == all().memories.end() || found->second.bytes != bytes)
    return kInvalidValue;
  if (mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.file, 0) ==
      MAP_FAILED)
    return kOutOfMemory;
  ++found->second.owners;
  all().mappings[address] = {bytes, handle, all().next_id++};
  return kSuccess;
}

Status cuMemUnmap(Address address, std::size_t bytes) {
  const std::lock_guard lock(all().mutex);
  const auto found = all().mappings.find(address);
  if (found == all().mappings.end() || found->second.bytes != bytes) return kInvalidValue;
  mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  all().release(found->second.memory);
  all().mappings.erase(found);
  return kSuccess;
}

// What one GPU may touch, the host may.
Status cuMemSetAccess(Address address, std::size_t bytes, const MemoryAccess* access,
                      std::size_t count) {
  if (const Status status = emulation_injected("cuMemSetAccess")) return status;
  if (!access || count == 0) return kInvalidValue;
  for (const MemoryAccess& one : std::span(access, count)) {
    if (one.location != MemoryAccess().location || one.flags != MemoryAccess().flags)
      return kInvalidValue;
    if (one.device < 0 || one.device >= emulation::device_count()) return kInvalidDevice;
  }
  const std::lock_guard lock(all().mutex);
  const auto found = all().mappings.find(address);
  if (found == all().mappings.end() || found->second.bytes != bytes) return kInvalidValue;
  return mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
}

Status cuMemRetainAllocationHandle(MemoryHandle* handle, void* data) {
  const std::lock_guard lock(all().mutex);
  const auto found = all().holding(reinterpret_cast<Address>(data));
  if (found == all().mappings.end()) return kInvalidValue;
  *handle = found->second.memory;
  ++all().memories.at(*handle).owners;
  return kSuccess;
}

Status cuMemRelease(MemoryHandle handle) {
  const std::lock_guard lock(all().mutex);
  if (!all().memories.contains(handle)) return kInvalidValue;
  all().release(handle);
  return kSuccess;
}

Status cuMemExportToShareableHandle(void* shareable, MemoryHandle handle, int kind,
                                    unsigned long long) {
  if (const Status status = emulation_injected("cuMemExportToShareableHandle")) return status;
  const std::lock_guard lock(all().mutex);
  const auto found = all().memories.find(handle);
  if (found == all().memories.end()) return kInvalidValue;
  const Memory& memory = found->second;
  if ((memory.kinds & kind) == 0) return kNotPermitted;
  if (kind == kDescriptorHandle) {
    const int file = dup(memory.file);
    std::memcpy(shareable, &file, sizeof(file));
    return file < 0 ? kOutOfMemory : kSuccess;
  }
  const Name name{getpid(), memory.file, memory.bytes, memory.id};
  std::memcpy(shareable, &name, sizeof(name));
  return kSuccess;
}

Status cuMemImportFromShareableHandle(MemoryHandle* handle, void* shareable, int kind) {
  if (emulation::current_ordinal() < 0) return kInvalidContext;
  Name wanted;
  int file = -1;
  if (kind == kDescriptorHandle) {
    file = dup(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)));
  } else {
    std::memcpy(&wanted, shareable, sizeof(wanted));
    char path[64];
    std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", static_cast<int>(wanted.process),
                  wanted.file);
    file = open(path, O_RDWR | O_CLOEXEC);
  }
  if (file < 0) return kInvalidHandle;
  int process = 0;
  unsigned long long id = 0;
  const bool lives = read_name(file, process, id) && process != getpid() &&
                     (kind == kDescriptorHandle || (process == wanted.process && id == wanted.id));
  const off_t bytes = lseek(file, 0, SEEK_END);
  if (!lives || bytes <= 0) {
    close(file);
    return kInvalidHandle;
  }
  const std::lock_guard lock(all().mutex);
  *handle = all().add(file, static_cast<std::size_t>(bytes), id, kind);
  return kSuccess;
}
}
