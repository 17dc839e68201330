// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/command.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <string>

#include "bench/interrupt.hpp"
#include "bench/plan/printer.hpp"
#include "bench/plan/reasons.hpp"
#include "bench/plan/search.hpp"
#include "bench/sweep.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

/// What a single GPU is refused for has nothing to do with mixes.
void require_possible(const PlanOptions& options) {
  comm::backend("simulated");
  TrainingConfig config;
  config.sequence_length = options.sequence_length;
  config.global_batch = options.global_batch;
  const auto broken = broken_rules(options.model, options.cluster, config);
  RINGSPAN_REQUIRE(broken.empty(), broken.front());
}

}  // namespace

int plan(const PlanOptions& options, const Processes& processes) {
  SearchResult result;
  std::exception_ptr failure;
  catch_interrupt();
  processes.in_first([&] {
    try {
      require_possible(options);
      result = search(options);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  const std::string status = processes.told_by_first([&] {
    if (interrupted()) {
      spdlog::warn("interrupted; nothing is planned");
      return std::to_string(kExitInterrupted);
    }
    if (failure) std::rethrow_exception(failure);
    const Reasons why = reasons(options, result);
    if (!result.unsimulated.empty()) spdlog::warn("{}", result.unsimulated);
    fmt::print("{}", options.json ? json(options, result, why) : table(options, result, why));
    return std::to_string(result.found() ? kExitOk : kExitFailed);
  });
  return std::stoi(status);
}

}  // namespace ringspan::bench
