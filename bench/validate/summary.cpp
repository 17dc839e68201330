// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace ringspan::bench {
namespace {

std::string share(double value) { return fmt::format("{:.2f} %", 100 * value); }
std::string signed_share(double value) { return fmt::format("{:+.1f} %", 100 * value); }
std::string plain(double value) { return fmt::format("{:.3f}", value); }
std::string signed_plain(double value) { return fmt::format("{:+.3f}", value); }

std::string line(std::string_view model, const Score& score, bool absolute) {
  return fmt::format("    {:<30} {:>4} {:>8} {:>9} {:>9} {:>6}\n", model, score.figures,
                     absolute ? plain(score.mean_absolute) : share(score.mean_absolute),
                     absolute ? signed_plain(score.largest) : signed_share(score.largest),
                     absolute ? signed_plain(score.bias) : signed_share(score.bias),
                     std::isnan(score.kendall_tau) ? "" : fmt::format("{:.2f}", score.kendall_tau));
}

}  // namespace

std::string summary(std::span<const Omission> omissions) {
  std::map<std::string, int> counts;
  for (const Omission& omission : omissions) ++counts[omission.reason];
  std::string text;
  for (const auto& [reason, count] : counts) {
    text +=
        fmt::format("  left out, {} {}: {}\n", count, count == 1 ? "figure" : "figures", reason);
  }
  return text;
}

std::string summary(const Validation& validation) {
  const TableEntry& entry = validation.entry;
  std::string text = fmt::format("{}: {}\n", entry.name, entry.summary);
  for (const std::string& metric : validation.metrics()) {
    text += fmt::format("  {:<32} {:>4} {:>8} {:>9} {:>9} {:>6}\n", metric, "n",
                        entry.absolute ? "|error|" : "MAPE", "largest", "bias", "tau");
    text += line(entry.simulated ? "simulated" : "closed form",
                 validation.score(metric, &ValidatedFigure::simulated), entry.absolute);
    if (!entry.has_naive) continue;
    text += line("naive", validation.score(metric, &ValidatedFigure::naive), entry.absolute);
  }
  const auto anchors =
      std::count_if(validation.figures.begin(), validation.figures.end(),
                    [](const ValidatedFigure& figure) { return figure.mark == Mark::calibration; });
  if (anchors > 0) text += fmt::format("  anchors, which no score counts   {:>5}\n", anchors);
  text += summary(validation.omissions);
  for (const Constant& constant : validation.constants) {
    text += fmt::format("  {}: {}, {} ({})\n", name(constant.mark), constant.name, constant.value,
                        constant.source);
  }
  return text;
}

}  // namespace ringspan::bench
