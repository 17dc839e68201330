// SPDX-License-Identifier: Apache-2.0
#include "bench/processes.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <mutex>
#include <optional>

#include "bench/run/simulation_process.hpp"
#include "comm/collectives.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// Answers for this rank while `body` keeps it busy, so that the others do not take it for dead.
void run_answering(const comm::Communicator& comm, const std::function<void()>& body) {
  constexpr std::chrono::milliseconds kBetweenAnswers{5};
  std::future<void> done = std::async(std::launch::async, body);
  while (done.wait_for(kBetweenAnswers) != std::future_status::ready) {
    const std::lock_guard no_copies(starting_copies());  // MPI and UCX have locks of their own
    comm.device().poll();
  }
  done.get();
}

std::string broadcast(const comm::Communicator& comm, std::string text) {
  const auto mine = static_cast<std::int64_t>(comm.rank() == 0 ? text.size() : 0);
  const std::int64_t bytes = comm::all_reduce(comm, mine, comm::Reduction::max);
  const comm::Buffer buffer = comm.device().allocate_values(bytes);
  auto* data = reinterpret_cast<char*>(buffer.data());
  std::copy_n(text.data(), mine, data);
  comm::broadcast(comm, comm::whole(buffer), 0);
  return {data, static_cast<std::size_t>(bytes)};
}

/// What a function of the first process came to.
struct Told {
  std::string text;
  std::optional<ErrorKind> failure;
};

Told outcome(const std::function<std::string()>& tell) {
  try {
    return {tell(), {}};
  } catch (const Error& error) {
    return {error.what(), error.kind()};
  } catch (const std::exception& error) {
    return {error.what(), ErrorKind::system};
  }
}

}  // namespace

Processes::Processes() : options_(comm::launch_options_from_environment()) {
  for (const comm::Backend& backend : comm::backends()) {
    if (!backend.process || backend.world != "host") continue;  // what is told takes no GPU
    if (!backend.unavailable().empty()) continue;
    const comm::Process process = backend.process(options_.deadline);
    if (process.size == 1) continue;
    transport_ = backend.name;
    process_ = process;
    break;
  }
  options_.ranks = process_.size;
  options_.ranks_per_node = 0;
}

Processes Processes::with_deadline(double seconds) const {
  Processes processes = *this;
  processes.options_.deadline = seconds;
  return processes;
}

void Processes::together(const comm::RankFunction& body) const {
  comm::launch(transport_, options_, body);
}

std::string Processes::told_by_first(const std::function<std::string()>& tell) const {
  Told told;
  together([&](const comm::Communicator& comm) {
    if (comm.rank() == 0) run_answering(comm, [&] { told = outcome(tell); });
    constexpr std::int64_t kNone = -1;
    const auto mine = told.failure ? static_cast<std::int64_t>(*told.failure) : kNone;
    const std::int64_t failure = comm::all_reduce(comm, mine, comm::Reduction::max);
    if (failure != kNone) told.failure = static_cast<ErrorKind>(failure);
    told.text = broadcast(comm, told.text);
  });
  if (told.failure) throw Error(*told.failure, told.text);
  return told.text;
}

void Processes::in_first(const std::function<void()>& body) const {
  if (size() == 1) return body();
  comm::LaunchOptions alone = options_;
  alone.ranks = 1;
  comm::launch(transport_, alone,
               [&](const comm::Communicator& comm) { run_answering(comm, body); });
}

void Processes::in_first_or_throw(const std::function<void()>& body) const {
  if (size() == 1) return body();
  std::exception_ptr failure;
  in_first([&] {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  told_by_first([&] {
    if (failure) std::rethrow_exception(failure);
    return std::string();
  });
}

bool Processes::any(bool here) const {
  bool any = here;
  together([&](const comm::Communicator& comm) {
    any = comm::all_reduce(comm, std::int64_t{here}, comm::Reduction::max) != 0;
  });
  return any;
}

bool lost(const Error& error) {
  return error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::peer_failed;
}

}  // namespace ringspan::bench
