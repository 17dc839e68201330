// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

using Predict = std::function<double(Simulator&)>;

class Validator {
 public:
  Validator(const TableEntry& entry, Simulator& described, Simulator& naive)
      : described_(described), naive_(naive), result_{entry, {}, {}, {}} {}

  Validation run(Table table) && {
    result_.omissions = std::move(table.omissions);
    for (Constant& constant : table.constants) add(std::move(constant));
    for (const Calibration& calibration : table.calibrations) calibrate(calibration);
    for (const Figure& figure : table.figures) {
      add({figure.name, figure.problem, figure.metric, figure.published, 0, 0, figure.mark},
          figure.predict);
    }
    return std::move(result_);
  }

 private:
  /// Both models, or a reason.
  void add(ValidatedFigure figure, const Predict& predict) {
    try {
      figure.simulated = predict(described_);
      figure.naive = predict(naive_);
      result_.figures.push_back(std::move(figure));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument) throw;
      result_.omissions.push_back({figure.name, error.what()});
    }
  }

  void add(Constant constant) {
    if (constant.factor) {
      constant.value = fmt::format("{:.4f} {} (naive model: {:.4f})", constant.factor(described_),
                                   constant.value, constant.factor(naive_));
    }
    result_.constants.push_back(std::move(constant));
  }

  void calibrate(const Calibration& calibration) {
    for (const Anchor& anchor : calibration.anchors) {
      add({anchor.name, "", "seconds", anchor.published_seconds, 0, 0, Mark::calibration},
          [&](Simulator& simulator) {
            return simulator.seconds(anchor, simulator.attention_speed(calibration));
          });
    }
    try {
      result_.constants.push_back(
          {concat("attention, ", calibration.name),
           fmt::format("{:.3f} of the published curve (naive model: {:.3f})",
                       described_.attention_speed(calibration),
                       naive_.attention_speed(calibration)),
           Mark::calibration, rows(calibration)});
    } catch (const Error& error) {  // which made omissions of its anchors already
      if (error.kind() != ErrorKind::invalid_argument) throw;
    }
  }

  static std::string rows(const Calibration& calibration) {
    std::string text;
    for (const Anchor& anchor : calibration.anchors) {
      text += concat(text.empty() ? "" : ", ", anchor.name.row);
    }
    return text;
  }

  Simulator& described_;
  Simulator& naive_;
  Validation result_;
};

}  // namespace

std::vector<std::string> Validation::metrics() const {
  std::vector<std::string> metrics;
  for (const ValidatedFigure& figure : figures) {
    const bool known = std::find(metrics.begin(), metrics.end(), figure.metric) != metrics.end();
    if (figure.mark != Mark::calibration && !known) metrics.push_back(figure.metric);
  }
  return metrics;
}

Score Validation::score(const std::string& metric, double ValidatedFigure::*model) const {
  std::vector<Comparison> comparisons;
  for (const ValidatedFigure& figure : figures) {
    if (figure.mark == Mark::calibration || figure.metric != metric) continue;
    comparisons.push_back({figure.problem, figure.published, figure.*model});
  }
  return bench::score(comparisons, entry.absolute);
}

Validation validate(const TableEntry& entry, Table table, Simulator& described, Simulator& naive) {
  return Validator(entry, described, naive).run(std::move(table));
}

}  // namespace ringspan::bench
