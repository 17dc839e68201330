// SPDX-License-Identifier: Apache-2.0
#include "bench/run/simulation_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <system_error>

#include "bench/interrupt.hpp"
#include "bench/run/simulate.hpp"
#include "bench/run/simulation_text.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

void require_system(int error, const char* what) {
  if (error != 0) {
    throw Error(ErrorKind::system,
                concat("simulation: ", what, ": ", std::generic_category().message(error)));
  }
}

/// Both ends of a pipe; what is not closed before is closed in the end.
class Pipe {
 public:
  Pipe() { require_system(pipe2(ends_.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe"); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  int out() const { return ends_[0]; }
  int in() const { return ends_[1]; }
  void close_out() { close_end(0); }
  void close_in() { close_end(1); }

 private:
  void close_end(int end) {
    if (ends_[end] >= 0) close(ends_[end]);
    ends_[end] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

/// A copy of this process that works something out and tells it. It is killed if nobody waits for
/// its end.
class Child {
 public:
  explicit Child(const std::function<std::string()>& work) {
    process_ = fork();
    if (process_ == 0) tell(work);
    if (process_ < 0) require_system(errno, "cannot start a process");
    told_.close_in();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    wait();
  }

  /// Appends what there is within a moment; false at the end.
  bool listen(std::string& text) {
    constexpr int kMilliseconds = 20;
    pollfd ready{told_.out(), POLLIN, 0};
    if (poll(&ready, 1, kMilliseconds) <= 0) return true;
    std::array<char, 1 << 16> part;
    const ssize_t bytes = read(told_.out(), part.data(), part.size());
    if (bytes > 0) text.append(part.data(), static_cast<std::size_t>(bytes));
    return bytes > 0 || (bytes < 0 && errno == EINTR);
  }

  /// How it ended; empty: as it should.
  std::string wait() {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = 0;
    if (WIFSIGNALED(status)) return concat("died of ", strsignal(WTERMSIG(status)));
    return WEXITSTATUS(status) == 0 ? "" : concat("ended with status ", WEXITSTATUS(status));
  }

 private:
  /// In the copy, which ends here: what this process has open is its own to finish.
  [[noreturn]] void tell(const std::function<std::string()>& work) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
    try {
      const std::string text = work();
      for (std::size_t told = 0; told < text.size();) {
        const ssize_t bytes = write(told_.in(), text.data() + told, text.size() - told);
        if (bytes < 0 && errno != EINTR) _exit(1);
        if (bytes > 0) told += static_cast<std::size_t>(bytes);
      }
      _exit(0);
    } catch (...) {
      _exit(1);
    }
  }

  Pipe told_;
  pid_t process_ = 0;
};

/// Half of a simulation's modes, or why there is none.
std::string simulated(const Point& point, const MeasureOptions& options,
                      const comm::Cluster& cluster, ModePair modes) {
  try {
    return text(simulate(point, options, cluster, modes));
  } catch (const Error& error) {
    return text(error);
  } catch (const std::exception& error) {
    return text(Error(ErrorKind::system, concat("simulation: ", error.what())));
  }
}

/// What a child has told so far.
struct Listening {
  Child child;
  std::string outcome = {};
  bool ended = false;
};

}  // namespace

std::mutex& starting_copies() {
  static std::mutex mutex;  // of the process, as what is copied is
  return mutex;
}

Measurement simulate_apart(const Point& point, const MeasureOptions& options,
                           const comm::Cluster& cluster) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  constexpr ModePair kHalves[] = {ModePair::with_kernels_and_messages, ModePair::one_of_them};
  const auto start_half = [&](ModePair modes) {
    return Child([&, modes] { return simulated(point, options, cluster, modes); });
  };
  std::unique_lock quiet(starting_copies());
  std::array<Listening, 2> halves{Listening{start_half(kHalves[0])},
                                  Listening{start_half(kHalves[1])}};  // at once: two cores
  quiet.unlock();
  while (!halves[0].ended || !halves[1].ended) {
    for (auto& [child, outcome, ended] : halves) ended = ended || !child.listen(outcome);
    if (interrupted()) throw Error(ErrorKind::aborted, "interrupted");
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < options.point_timeout) continue;
    throw Error(ErrorKind::aborted,
                concat("the point took longer than --point-timeout ", options.point_timeout, " s"));
  }
  for (Listening& half : halves) {
    const std::string end = half.child.wait();
    if (interrupted()) throw Error(ErrorKind::aborted, "interrupted");
    if (!end.empty()) throw Error(ErrorKind::system, concat("the simulation's process ", end));
  }
  return joined(measurement(halves[0].outcome), measurement(halves[1].outcome));
}

}  // namespace ringspan::bench
