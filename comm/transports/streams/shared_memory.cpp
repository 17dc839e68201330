// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "comm/error.hpp"

namespace ringspan::comm::streams {
namespace {

[[noreturn]] void fail(const char* call, const std::string& name, int code = errno) {
  throw Error(ErrorKind::system, concat("shared memory: ", call, name.empty() ? "" : " of ", name,
                                        ": ", std::strerror(code)));
}

std::byte* map(std::size_t bytes, int flags, int file, const std::string& name) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, file, 0);
  if (data == MAP_FAILED) fail("mmap", name);
  return static_cast<std::byte*>(data);
}

// All of it, now: where a file system is full, the first touch of a page would end the process.
void reserve(int file, std::size_t bytes, const std::string& name) {
  if (const int code = posix_fallocate(file, 0, static_cast<off_t>(bytes)))
    fail("posix_fallocate", name, code);
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes)
    : bytes_(bytes), data_(map(bytes, MAP_ANONYMOUS | MAP_NORESERVE, -1, "")) {}

SharedMemory::SharedMemory(const std::string& name, bool create, std::size_t bytes)
    : bytes_(bytes) {
  const int file = shm_open(name.c_str(), O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0600);
  if (file < 0) fail("shm_open", name);
  try {
    if (create) reserve(file, bytes, name);
    data_ = map(bytes, 0, file, name);
  } catch (const Error&) {
    close(file);
    if (create) remove(name);
    throw;
  }
  close(file);
}

SharedMemory::~SharedMemory() { munmap(data_, bytes_); }

void SharedMemory::remove(const std::string& name) { shm_unlink(name.c_str()); }

}  // namespace ringspan::comm::streams
