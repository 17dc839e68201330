// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/transport_under_test.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "comm/collectives.hpp"
#include "comm/devices/cuda/api.hpp"

namespace ringspan::comm::test {
namespace {

constexpr double kGatherDeadline = 60;  // seconds; the processes may be that far apart

void record_skip(const std::string& reason) { GTEST_SKIP() << reason; }

// GoogleTest takes this exception for one that it has reported already.
[[noreturn]] void skip(const std::string& reason) {
  record_skip(reason);
  throw testing::AssertionException({testing::TestPartResult::kSkip, __FILE__, __LINE__, ""});
}

int gpus() {
  static const int count = device_count(*cuda::load_cuda());
  return count;
}

// Only ranks of cuda_ipc that are processes may share one.
bool a_gpu_each() { return transport() == "nccl" || (on_gpus() && on_threads()); }

// Where the tests can look at it.
void place_memory(LaunchOptions& options) {
  options.gpu_memory = std::getenv("RINGSPAN_TEST_GPU_MEMORY") != nullptr;
  options.debug.reachable = std::getenv("RINGSPAN_TEST_REACHABLE") != nullptr;
  options.debug.blocking = on_gpus() || options.gpu_memory;
}

int& left_out_so_far() {
  static int count = 0;
  return count;
}

}  // namespace

std::string_view transport() {
  static const char* const name = std::getenv("RINGSPAN_TEST_TRANSPORT");
  return name ? name : "threads";
}

bool on_threads() { return backend(transport()).process == nullptr; }

bool on_gpus() { return backend(transport()).world == "gpu"; }

std::vector<Hop> hops() {
  if (transport() == "threads") return {Hop::copy, Hop::reference};
  return {Hop::copy};
}

Process process() {
  static const Process own =
      on_threads() ? Process{} : backend(transport()).process(kGatherDeadline);
  return own;
}

void launch(const LaunchOptions& options, const RankFunction& body) {
  if (!on_threads() && options.ranks > process().size)
    skip(concat(options.ranks, " ranks, ", process().size, " processes"));
  if (a_gpu_each() && options.ranks > gpus())
    skip(concat(options.ranks, " ranks, ", gpus(), " GPUs"));
  if (options.hop == Hop::reference && transport() != "threads")
    skip("only on threads: hops by reference");
  LaunchOptions as_tested = options;
  place_memory(as_tested);
  comm::launch(transport(), as_tested, body);
}

std::optional<Error> failure_of(const LaunchOptions& options, const RankFunction& body) {
  try {
    launch(options, body);
  } catch (const Error& error) {
    return error;
  }
  return {};
}

testing::AssertionResult on_every_rank(const LaunchOptions& options, const RankCheck& check) {
  std::vector<std::string> failures(options.ranks);
  launch(options, [&](const Communicator& comm) {
    const testing::AssertionResult result = check(comm);
    if (!result) failures[comm.rank()] = concat("on rank ", comm.rank(), ", ", result.message());
  });
  const auto is_failure = [](const std::string& text) { return !text.empty(); };
  const auto here = std::find_if(failures.begin(), failures.end(), is_failure);
  const auto all = gather(here == failures.end() ? "" : *here);
  const auto first = std::find_if(all.begin(), all.end(), is_failure);
  if (first == all.end()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << *first;
}

bool enough_processes(int ranks) {
  const bool enough =
      (!a_gpu_each() || ranks <= gpus()) && (on_threads() || ranks <= process().size);
  left_out_so_far() += !enough;
  return enough;
}

int left_out() { return left_out_so_far(); }

void only_on_threads(std::string_view reason) {
  if (!on_threads()) skip(concat("only on threads: ", reason));
}

void not_on_gpus(std::string_view reason) {
  if (on_gpus()) skip(concat("not on GPUs: ", reason));
}

std::vector<std::string> gather(const std::string& mine) {
  if (on_threads()) return {mine};
  std::vector<std::string> texts(process().size);
  LaunchOptions options{.ranks = process().size, .deadline = kGatherDeadline};
  place_memory(options);
  comm::launch(transport(), options, [&](const Communicator& comm) {
    std::vector<Slice> parts;
    for (const std::int64_t bytes : all_gather_values(comm, std::ssize(mine)))
      parts.push_back(whole(comm.device().allocate(bytes)));
    std::memcpy(parts[comm.rank()].data(), mine.data(), mine.size());
    all_gather(comm, parts);
    for (int rank = 0; rank < comm.size(); ++rank)
      texts[rank].assign(reinterpret_cast<const char*>(parts[rank].data()), parts[rank].bytes());
  });
  return texts;
}

}  // namespace ringspan::comm::test
