// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bench/rows/new_csv.hpp"
#include "bench/validate/validation.hpp"

namespace ringspan::bench {

/// A CSV with a row for each figure, predicted or not; none where the path is empty.
class ValidationCsv {
 public:
  /// Throws invalid_argument if there is such a file already, or it cannot be written.
  explicit ValidationCsv(const std::string& path);

  /// They throw system if the file system refuses.
  void append(const Validation& validation);
  void append(std::span<const Omission> omissions, std::string_view table = "");

 private:
  NewCsv file_;
};

}  // namespace ringspan::bench
