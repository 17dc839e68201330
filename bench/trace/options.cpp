// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/options.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "attention/schedule.hpp"
#include "bench/ask/sweep_options.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr OptionEntry kOutput{
    .name = "--output", .help = "the file to write [trace.json]", .letter = "-o"};

constexpr std::string_view kOfSweepsOnly[] = {"--repeats", "--check", "--csv", "--resume"};

template <typename Values>
void require_one(std::string_view option, const Values& values) {
  RINGSPAN_REQUIRE(values.size() == 1, option, ": ", values.size(),
                   " values, but a trace is of one point; give one");
}

}  // namespace

std::span<const OptionEntry> trace_option_entries() {
  static const std::string schedules =
      name_list(attention::schedules(), &attention::ScheduleEntry::name) + " [zigzag]";
  static const std::vector<OptionEntry> entries = [] {
    // Where sweeps have several values.
    std::vector<OptionEntry> result{
        kOutput, {"--schedule", schedules}, {"--ranks", "number of ranks [2]"}};
    for (const OptionEntry& entry : sweep_option_entries()) {
      const auto same = [&](const OptionEntry& other) { return other.name == entry.name; };
      const bool of_sweeps = std::find(std::begin(kOfSweepsOnly), std::end(kOfSweepsOnly),
                                       entry.name) != std::end(kOfSweepsOnly);
      if (!of_sweeps && std::none_of(result.begin(), result.end(), same)) result.push_back(entry);
    }
    return result;
  }();
  return entries;
}

TraceOptions trace_options(OptionTexts texts, const Clusters& clusters) {
  for (const std::string_view option : kOfSweepsOnly) {
    RINGSPAN_REQUIRE(texts.find(option) == texts.end(), option, ": belongs to sweeps");
  }
  const auto output = texts.find(kOutput.name);
  TraceOptions options;
  options.output = output == texts.end() ? "trace.json" : output->second;
  RINGSPAN_REQUIRE(!options.output.empty(), kOutput.name, ": the file name is empty");
  texts.try_emplace("--schedule", "zigzag");
  texts.try_emplace("--ranks", "2");
  SweepOptions sweep = sweep_options(texts, clusters);
  for (const auto& axis : sweep.axes.names) require_one(axis.option, axis.values);
  for (const auto& axis : sweep.axes.numbers) require_one(axis.option, axis.values);
  if (texts.count("--model") > 0) require_one("--model", sweep.axes.models);
  options.axes = std::move(sweep.axes);
  options.measure = sweep.measure;
  return options;
}

}  // namespace ringspan::bench
