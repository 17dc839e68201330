// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/command.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "bench/machine.hpp"
#include "bench/primitives/rows.hpp"
#include "bench/sweep.hpp"
#include "comm/error.hpp"
#include "comm/nodes.hpp"
#include "comm/probe.hpp"

namespace ringspan::bench {
namespace {

using Format = PrimitiveOptions::Format;

/// Prints rows as they come, from the first that holds a time; the columns of nccl-tests hold one
/// primitive at a time, so there they wait for the end of a family.
class Printer {
 public:
  explicit Printer(Format format) : format_(format) {}

  void add(PrimitiveRow row) {
    timed_ |= row.median().has_value();
    wrong_ |= row.timed.wrong > 0;
    if (refusal_.empty()) refusal_ = row.timed.refusal;
    waiting_.push_back(std::move(row));
    if (timed_ && format_ != Format::nccl) print_lines();
  }

  void end_family() {
    if (timed_ && format_ == Format::nccl) print_primitives();
  }

  bool timed() const { return timed_; }
  bool wrong() const { return wrong_; }
  const std::string& refusal() const { return refusal_; }  // the first

 private:
  void print_lines() {
    const bool csv = format_ == Format::csv;
    if (!std::exchange(headed_, true)) fmt::print("{}", csv ? csv_header() : table_header());
    for (const PrimitiveRow& row : waiting_)
      fmt::print("{}", csv ? csv_text(row) : table_text(row));
    printed();
  }

  void print_primitives() {
    const auto less = [](const PrimitiveRow& a, const PrimitiveRow& b) {
      return a.timed.primitive < b.timed.primitive;  // the order of the table
    };
    std::stable_sort(waiting_.begin(), waiting_.end(), less);
    for (auto first = waiting_.begin(); first != waiting_.end();) {
      const auto last = std::upper_bound(first, waiting_.end(), *first, less);
      fmt::print("{}", nccl_text({first, last}));
      first = last;
    }
    printed();
  }

  void printed() {
    waiting_.clear();
    std::fflush(stdout);
  }

  Format format_;
  bool headed_ = false, timed_ = false, wrong_ = false;
  std::string refusal_;
  std::vector<PrimitiveRow> waiting_;
};

/// Those asked for, or all, that a transport has, family by family.
std::vector<std::vector<const Primitive*>> families(const PrimitiveOptions& options,
                                                    const std::string& transport) {
  std::vector<std::vector<const Primitive*>> families;
  for (const Primitive& primitive : primitives()) {
    const auto& asked = options.primitives;
    const bool wanted =
        asked.empty() || std::find(asked.begin(), asked.end(), primitive.name) != asked.end();
    const bool there = primitive.transport.empty() || primitive.transport == transport;
    if (!wanted || !there) continue;
    if (families.empty() || families.back()[0]->family != primitive.family) families.emplace_back();
    families.back().push_back(&primitive);
  }
  return families;
}

/// An automatic all-to-all goes by what messages cost.
comm::Communicator knowing_costs(const comm::Communicator& comm, const PrimitiveOptions& options) {
  constexpr double kProbeSeconds = 1;
  const auto& asked = options.primitives;
  const bool automatic =
      asked.empty() || std::find(asked.begin(), asked.end(), "all_to_all_automatic") != asked.end();
  return automatic ? comm.knowing(comm::probe(comm, kProbeSeconds)) : comm;
}

/// One rank of one transport.
class RankPrimitives {
 public:
  RankPrimitives(const comm::Communicator& comm, const PrimitiveOptions& options, Stage stage,
                 Printer& printer)
      : comm_(knowing_costs(comm, options)),
        options_(options),
        stage_(std::move(stage)),
        printer_(printer) {
    stage_.ranks_per_node = comm::Nodes(comm).largest();
  }

  void time() {
    for (const auto& family : families(options_, stage_.transport)) {
      const std::size_t sizes = family[0]->factor == BusFactor::none ? 1 : options_.bytes.size();
      for (std::size_t i = 0; i < sizes; ++i) time(family, options_.bytes[i]);
      if (comm_.rank() == 0) printer_.end_family();
    }
  }

 private:
  void time(const std::vector<const Primitive*>& family, std::int64_t bytes) {
    comm::Device& device = comm_.device();
    const Setting setting{comm_, bytes, options_.inner_ring, device.allocate(bytes),
                          device.allocate(bytes)};
    for (const Timed& timed : time_in_turns(setting, family, options_.warmup, options_.repeats)) {
      if (comm_.rank() == 0) printer_.add({stage_, timed});
    }
  }

  comm::Communicator comm_;
  const PrimitiveOptions& options_;
  Stage stage_;
  Printer& printer_;
};

/// All primitives and sizes on the ranks of one transport that live in this process.
void time_here(const std::string& transport, int ranks, const PrimitiveOptions& options,
               Printer& printer) {
  comm::LaunchOptions launch = comm::launch_options_from_environment();
  launch.ranks = ranks;
  launch.hop = options.hop;
  if (options.ranks_per_node > 0) launch.ranks_per_node = options.ranks_per_node;
  if (options.deadline) launch.deadline = *options.deadline;
  const bool lends = options.hop == comm::Hop::reference;
  const Stage stage{this_machine().name(), transport, lends ? "reference" : "copy", ranks};
  comm::launch(transport, launch, [&](const comm::Communicator& comm) {
    RankPrimitives(comm, options, stage, printer).time();
  });
}

/// The reason if the transport cannot have so many ranks. Collective; the same on all processes.
std::string time_on(const std::string& transport, int ranks, const PrimitiveOptions& options,
                    Printer& printer, const Processes& processes) {
  try {
    if (comm::backend(transport).process) {
      time_here(transport, ranks, options, printer);
      return "";
    }
    std::exception_ptr failure;
    processes.in_first([&] {
      try {
        time_here(transport, ranks, options, printer);
      } catch (...) {
        failure = std::current_exception();
      }
    });
    return processes.told_by_first([&] {
      if (failure) std::rethrow_exception(failure);
      return std::string();
    });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_argument) throw;
    return error.what();
  }
}

}  // namespace

int time_primitives(const PrimitiveOptions& options, const Processes& processes) {
  Printer printer(options.format);
  std::vector<std::string> refusals;
  for (const std::string& transport : options.transports) {
    for (const std::int64_t ranks : options.ranks) {
      const std::string refusal =
          time_on(transport, static_cast<int>(ranks), options, printer, processes);
      if (!refusal.empty()) refusals.push_back(concat(transport, ": ", refusal));
    }
  }
  processes.told_by_first([&] {
    RINGSPAN_REQUIRE(printer.timed(), refusals.empty() ? printer.refusal() : refusals[0]);
    for (const std::string& refusal : refusals) spdlog::warn("left out: {}", refusal);
    return std::string();
  });
  return printer.wrong() ? kExitFailed : kExitOk;
}

}  // namespace ringspan::bench
