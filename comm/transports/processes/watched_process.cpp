// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/watched_process.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace ringspan::comm::processes {

ProcessIdentity ProcessIdentity::own() {
  ProcessIdentity own;
  std::ifstream("/proc/sys/kernel/random/boot_id").read(own.boot.data(), own.boot.size());
  struct stat status {};
  if (stat("/proc/self/ns/pid", &status) == 0) own.id_namespace = status.st_ino;
  own.id = getpid();
  return own;
}

WatchedProcess::WatchedProcess(const ProcessIdentity& process) {
  const ProcessIdentity own = ProcessIdentity::own();
  if (process.boot != own.boot || process.id_namespace != own.id_namespace) return;
#ifdef SYS_pidfd_open
  descriptor_ = static_cast<int>(syscall(SYS_pidfd_open, process.id, 0));
  never_found_ = descriptor_ < 0 && errno == ESRCH;
#endif
}

WatchedProcess::~WatchedProcess() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool WatchedProcess::ended() const {
  if (never_found_) return true;
  pollfd readable{descriptor_, POLLIN, 0};  // once the process has ended; poll() ignores -1
  poll(&readable, 1, 0);
  return (readable.revents & POLLIN) != 0;  // not where this process has closed all it had open
}

// The kernel asks whether it may before it looks for the descriptor.
bool WatchedProcess::lets_take() const { return take(-1) < 0 && errno == EBADF && !ended(); }

int WatchedProcess::take([[maybe_unused]] int number) const {
  errno = ENOSYS;
  if (descriptor_ < 0) return -1;
#ifdef SYS_pidfd_getfd
  return static_cast<int>(syscall(SYS_pidfd_getfd, descriptor_, number, 0));
#else
  return -1;
#endif
}

}  // namespace ringspan::comm::processes
