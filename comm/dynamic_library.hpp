// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ringspan::comm {

/// A library that a machine may or may not have, opened at run time and never closed: it has
/// threads of its own. Throws not_available, in the loader's words.
class DynamicLibrary {
 public:
  /// `meaning` is what its absence means to the user: "no CUDA device: no driver".
  DynamicLibrary(std::string meaning, const char* file);

  /// Points `function` at the symbol.
  template <typename Result, typename... Arguments>
  void find(Result (*&function)(Arguments...), const char* symbol) const {
    function = reinterpret_cast<Result (*)(Arguments...)>(address(symbol));
  }

 private:
  void* address(const char* symbol) const;

  const std::string meaning_;
  void* const library_;
};

}  // namespace ringspan::comm
