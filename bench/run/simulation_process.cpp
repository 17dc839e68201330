// SPDX-License-Identifier: Apache-2.0
#include "bench/run/simulation_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "bench/ask/cluster_file.hpp"
#include "bench/interrupt.hpp"
#include "bench/run/simulate.hpp"
#include "bench/run/simulation_text.hpp"
#include "comm/error.hpp"

extern char** environ;

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

// Set in the environment of children: one that did not know the command, as a test's executable
// does not, would start children of its own without end.
constexpr char kIsChild[] = "RINGSPAN_SIMULATES";

/// This program once more. It is killed if nobody waits for its end.
class Child {
 public:
  Child() {
    RINGSPAN_REQUIRE(std::getenv(kIsChild) == nullptr,
                     "simulation: only the ringspan command can simulate a point");
    std::string child = concat(kIsChild, "=1");
    std::vector<char*> environment{child.data()};
    for (char** variable = environ; *variable; ++variable) environment.push_back(*variable);
    environment.push_back(nullptr);
    const std::string command(kSimulateCommand);
    const char* const arguments[] = {"ringspan", command.c_str(), nullptr};
    posix_spawn_file_actions_t actions;
    require_system(posix_spawn_file_actions_init(&actions), "posix_spawn");
    posix_spawn_file_actions_adddup2(&actions, to_.out(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from_.in(), STDOUT_FILENO);
    const int error = posix_spawn(&process_, "/proc/self/exe", &actions, nullptr,
                                  const_cast<char* const*>(arguments), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) process_ = 0;
    require_system(error, "cannot start a process");
    to_.close_out();
    from_.close_in();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (process_ == 0) return;
    kill(process_, SIGKILL);
    wait();
  }

  /// A task fits into the pipe; of a process that is gone before it reads, wait() tells. SIGPIPE is
  /// ignored by this program.
  void tell(const std::string& text) {
    [[maybe_unused]] const ssize_t told = write(to_.in(), text.data(), text.size());
    to_.close_in();
  }

  /// Appends what there is within a moment; false at the end.
  bool listen(std::string& text) {
    constexpr int kMilliseconds = 20;
    pollfd ready{from_.out(), POLLIN, 0};
    if (poll(&ready, 1, kMilliseconds) <= 0) return true;
    std::array<char, 1 << 16> part;
    const ssize_t bytes = read(from_.out(), part.data(), part.size());
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
  Pipe to_, from_;
  pid_t process_ = 0;
};

/// What a child has told so far.
struct Listening {
  Child child;
  std::string outcome = {};
  bool ended = false;
};

}  // namespace

Measurement simulate_apart(const Point& point, const MeasureOptions& options,
                           const comm::Cluster& cluster) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  constexpr ModePair kHalves[] = {ModePair::with_kernels_and_messages, ModePair::one_of_them};
  std::array<Listening, 2> halves;  // at once, where there are two cores
  for (std::size_t half = 0; half < halves.size(); ++half)
    halves[half].child.tell(text(SimulationTask{point, options, cluster, kHalves[half]}));
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

Measurement simulate_apart(const Point& point, const MeasureOptions& options) {
  return simulate_apart(point, options, read_cluster(point.cluster));
}

void simulate_one_point() {
  const std::string task{std::istreambuf_iterator<char>(std::cin), {}};
  try {
    const auto [point, options, cluster, modes] = simulation_task(task);
    std::cout << text(simulate(point, options, cluster, modes));
  } catch (const Error& error) {
    std::cout << text(error);
  }
}

}  // namespace ringspan::bench
