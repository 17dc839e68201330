// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace ringspan::bench {
namespace {

constexpr const char* kLine =
    "{:>9}  {:<9} {:<19} {:<10} {:<8} {:<5} {:>5} {:>9} {:>6} {:>11} {:>11} {:>9}  {:<6}  {}\n";

std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

std::string duration(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  return whole < 60 ? fmt::format("{} s", whole)
                    : fmt::format("{}:{:02} min", whole / 60, whole % 60);
}

}  // namespace

// mpirun makes every standard output a terminal, whatever its own is.
Progress::Progress(std::size_t total, bool alone)
    : total_(total), terminal_(alone && isatty(STDOUT_FILENO) == 1) {}

void Progress::begin(const Point& point) {
  if (!terminal_) return;
  clear_line();
  constexpr std::size_t kWidth = 24;
  const std::size_t filled = kWidth * done_ / total_;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const std::string rest = done_ == 0 ? ""
                                      : ", about " +
                                            duration(seconds / static_cast<double>(done_) *
                                                     static_cast<double>(total_ - done_)) +
                                            " left";
  fmt::print("[{}{}] {}/{} {} on {}, {} tokens{}", std::string(filled, '#'),
             std::string(kWidth - filled, '.'), done_, total_, point.schedule,
             point.ranks == 1 ? "1 rank" : fmt::format("{} ranks", point.ranks),
             point.sequence_length, rest);
  std::fflush(stdout);
}

void Progress::end(const Row& row) {
  clear_line();
  if (done_++ == 0) {
    fmt::print(kLine, "", "transport", "schedule", "layout", "pass", "dtype", "ranks", "tokens",
               "heads", "median", "exposed", "GF/s/rank", "mask", "status");
  }
  const Point& point = row.point;
  std::string median, exposed, gflops;
  if (row.result) {
    median = milliseconds(row.result->metrics.median);
    exposed = milliseconds(row.result->metrics.exposed);
    if (row.result->tflops_per_rank) {
      gflops = fmt::format("{:.1f}", *row.result->tflops_per_rank * 1e3);
    }
  }
  fmt::print(kLine, fmt::format("{}/{}", done_, total_), point.transport, point.schedule,
             point.layout, point.pass, point.dtype, point.ranks, point.sequence_length, point.heads,
             median, exposed, gflops, point.mask, row.status);
  std::fflush(stdout);
}

void Progress::clear_line() const {
  if (terminal_) fmt::print("\r\033[K");
}

}  // namespace ringspan::bench
