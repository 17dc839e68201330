// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/printer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace ringspan::bench {

using Format = PrimitiveOptions::Format;

void Printer::add(PrimitiveRow row) {
  timed_ |= row.median().has_value();
  wrong_ |= row.timed.wrong > 0;
  if (refusal_.empty()) refusal_ = row.timed.refusal;
  waiting_.push_back(std::move(row));
  if (timed_ && format_ != Format::nccl) print_lines();
}

void Printer::end_family() {
  if (timed_ && format_ == Format::nccl) print_primitives();
}

void Printer::print_lines() {
  const bool csv = format_ == Format::csv;
  if (!std::exchange(headed_, true)) fmt::print("{}", csv ? csv_header() : table_header());
  for (const PrimitiveRow& row : waiting_) fmt::print("{}", csv ? csv_text(row) : table_text(row));
  waiting_.clear();
  std::fflush(stdout);
}

void Printer::print_primitives() {
  const auto less = [](const PrimitiveRow& a, const PrimitiveRow& b) {
    return a.timed.primitive < b.timed.primitive;  // the order of the table
  };
  std::stable_sort(waiting_.begin(), waiting_.end(), less);
  for (auto first = waiting_.begin(); first != waiting_.end();) {
    const auto last = std::upper_bound(first, waiting_.end(), *first, less);
    fmt::print("{}", nccl_text({first, last}));
    first = last;
  }
  waiting_.clear();
  std::fflush(stdout);
}

}  // namespace ringspan::bench
