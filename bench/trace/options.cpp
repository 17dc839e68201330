// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/options.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

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
  static const std::vector<OptionEntry> entries = [] {
    std::vector<OptionEntry> result{kOutput};
    const std::span<const OptionEntry> sweep = sweep_option_entries();
    std::copy_if(sweep.begin(), sweep.end(), std::back_inserter(result), [](const auto& entry) {
      return std::find(std::begin(kOfSweepsOnly), std::end(kOfSweepsOnly), entry.name) ==
             std::end(kOfSweepsOnly);
    });
    return result;
  }();
  return entries;
}

TraceOptions trace_options(OptionTexts texts) {
  for (const std::string_view option : kOfSweepsOnly) {
    RINGSPAN_REQUIRE(texts.find(option) == texts.end(), option, ": belongs to sweeps");
  }
  const auto output = texts.find(kOutput.name);
  TraceOptions options;
  options.output = output == texts.end() ? "trace.json" : output->second;
  RINGSPAN_REQUIRE(!options.output.empty(), kOutput.name, ": the file name is empty");
  texts.try_emplace("--schedule", "zigzag");  // where sweeps have several
  texts.try_emplace("--ranks", "2");
  SweepOptions sweep = sweep_options(texts);
  for (const auto& axis : sweep.axes.names) require_one(axis.option, axis.values);
  for (const auto& axis : sweep.axes.numbers) require_one(axis.option, axis.values);
  if (texts.count("--model") > 0) require_one("--model", sweep.axes.models);
  options.axes = std::move(sweep.axes);
  options.measure = sweep.measure;
  return options;
}

}  // namespace ringspan::bench
