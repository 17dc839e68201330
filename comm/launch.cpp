// SPDX-License-Identifier: Apache-2.0
#include "comm/launch.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace ringspan::comm {

#define RINGSPAN_TRANSPORT(name) Backend name##_backend();
#include "backends.inc"
#undef RINGSPAN_TRANSPORT

namespace {

constexpr double kDebugDelay = 200e-6;  // seconds, for RINGSPAN_DEBUG=delay

template <typename Value>
Value parse(std::string_view variable, std::string_view text, std::string_view wanted) {
  Value value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  RINGSPAN_REQUIRE(error == std::errc() && end == text.data() + text.size(), variable, " is '",
                   text, "'; it must be ", wanted);
  return value;
}

int ranks_from_environment(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return 0;
  constexpr std::string_view wanted = "a number of ranks, or 0 for the machine's own";
  const int ranks = parse<int>(variable, text, wanted);
  RINGSPAN_REQUIRE(ranks >= 0, variable, " is '", text, "'; it must be ", wanted);
  return ranks;
}

DebugOptions parse_debug(std::string_view text) {
  DebugOptions debug;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    if (word == "ledger") {
      debug.ledger = true;
    } else if (word == "poison") {
      debug.poison = true;
    } else if (word == "blocking") {
      debug.blocking = true;
    } else if (word == "reachable") {
      debug.reachable = true;
    } else if (word == "delay") {
      debug.max_delay = kDebugDelay;
    } else {
      RINGSPAN_REQUIRE(false, "RINGSPAN_DEBUG is '", text,
                       "'; it must be a comma list of ledger, poison, blocking, reachable, delay");
    }
    if (comma == rest.npos) return debug;
    rest.remove_prefix(comma + 1);
  }
}

void require_valid(const Backend& chosen, const LaunchOptions& options) {
  RINGSPAN_REQUIRE(options.ranks >= 1, "launch: ", options.ranks, " ranks; at least 1 is needed");
  RINGSPAN_REQUIRE(options.ranks_per_node >= 0, "launch: ", options.ranks_per_node,
                   " ranks per node; it must be at least 1, or 0 for the machine's own");
  RINGSPAN_REQUIRE(options.ranks_per_numa_domain >= 0, "launch: ", options.ranks_per_numa_domain,
                   " ranks per NUMA domain; it must be at least 1, or 0 for the machine's own");
  RINGSPAN_REQUIRE(std::isfinite(options.deadline) && options.deadline > 0,
                   "launch: a deadline of ", options.deadline, " seconds; it must be positive");
  RINGSPAN_REQUIRE(std::isfinite(options.debug.max_delay) && options.debug.max_delay >= 0,
                   "launch: a debug delay of ", options.debug.max_delay,
                   " seconds; it must not be negative");
  RINGSPAN_REQUIRE(!options.gpu_memory || chosen.process || chosen.world == "gpu",
                   "launch: transport '", chosen.name,
                   "' has no memory of GPUs; gpu_memory is for mpi, ucx, nccl and cuda_ipc");
  RINGSPAN_REQUIRE(!options.gpu_resources || options.gpu_memory || chosen.world == "gpu",
                   "launch: gpu_resources is for ranks on GPUs; those of transport '", chosen.name,
                   "' are on the host", chosen.process ? " unless gpu_memory is set" : "");
}

}  // namespace

std::vector<Place> even_places(int ranks, int ranks_per_node, int ranks_per_numa_domain) {
  const int per_node = ranks_per_node > 0 ? ranks_per_node : ranks;
  const int per_domain = ranks_per_numa_domain > 0 ? ranks_per_numa_domain : per_node;
  std::vector<Place> places;
  for (int rank = 0; rank < ranks; ++rank) {
    const int local = rank % per_node;
    places.push_back({rank / per_node, local / per_domain, local, local});
  }
  return places;
}

LaunchOptions launch_options_from_environment() {
  LaunchOptions options;
  options.ranks_per_node = ranks_from_environment("RINGSPAN_RANKS_PER_NODE");
  options.ranks_per_numa_domain = ranks_from_environment("RINGSPAN_RANKS_PER_NUMA_DOMAIN");
  if (const char* text = std::getenv("RINGSPAN_TIMEOUT_S")) {
    constexpr std::string_view wanted = "a positive number of seconds";
    options.deadline = parse<double>("RINGSPAN_TIMEOUT_S", text, wanted);
    RINGSPAN_REQUIRE(std::isfinite(options.deadline) && options.deadline > 0,
                     "RINGSPAN_TIMEOUT_S is '", text, "'; it must be ", wanted);
  }
  if (const char* text = std::getenv("RINGSPAN_DEBUG")) options.debug = parse_debug(text);
  if (const char* text = std::getenv("RINGSPAN_FLIGHT_RECORDER")) options.flight_recorder = text;
  return options;
}

std::span<const Backend> backends() {
  static const Backend table[] = {
#define RINGSPAN_TRANSPORT(name) name##_backend(),
#include "backends.inc"
#undef RINGSPAN_TRANSPORT
  };
  return table;
}

const Backend& backend(std::string_view name) {
  for (const Backend& backend : backends())
    if (backend.name == name) return backend;
  throw Error(ErrorKind::invalid_argument,
              concat("transport '", name, "' is not known; this build has ",
                     name_list(backends(), &Backend::name)));
}

bool ranks_are_processes(const Backend& backend, double deadline) {
  return backend.process && backend.process(deadline).size > 1;
}

void launch(std::string_view transport, const LaunchOptions& options, const RankFunction& body) {
  const Backend& chosen = backend(transport);
  require_valid(chosen, options);
  RINGSPAN_REQUIRE(body, "launch: there is no function to run");
  const std::string reason = chosen.unavailable();
  // One process must not leave alone what the others begin: there they tell each other the reason.
  const bool apart =
      !reason.empty() && (options.bootstrap || ranks_are_processes(chosen, options.deadline));
  if (!reason.empty() && !apart)
    throw Error(ErrorKind::not_available, concat("transport '", transport, "': ", reason));
  chosen.launch(options, body);
}

}  // namespace ringspan::comm
