// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/primitives/options.hpp"
#include "bench/primitives/rows.hpp"

namespace ringspan::bench {

/// Prints rows as they come, from the first that holds a time; the columns of nccl-tests hold one
/// primitive at a time, so there they wait for the end of a family.
class Printer {
 public:
  explicit Printer(PrimitiveOptions::Format format) : format_(format) {}

  void add(PrimitiveRow row);
  void end_family();

  bool timed() const { return timed_; }
  bool wrong() const { return wrong_; }
  const std::string& refusal() const { return refusal_; }  // the first

 private:
  void print_lines();
  void print_primitives();

  PrimitiveOptions::Format format_;
  bool headed_ = false, timed_ = false, wrong_ = false;
  std::string refusal_;
  std::vector<PrimitiveRow> waiting_;
};

}  // namespace ringspan::bench
