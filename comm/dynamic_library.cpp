// SPDX-License-Identifier: Apache-2.0
#include "comm/dynamic_library.hpp"

#include <dlfcn.h>

#include <utility>

#include "comm/error.hpp"

namespace ringspan::comm {
namespace {

[[noreturn]] void refuse(const std::string& meaning) {
  const char* const reason = dlerror();
  throw Error(ErrorKind::not_available, concat(meaning, ": ", reason ? reason : "unknown reason"));
}

}  // namespace

DynamicLibrary::DynamicLibrary(std::string meaning, const char* file)
    : meaning_(std::move(meaning)), library_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (!library_) refuse(meaning_);
}

void* DynamicLibrary::address(const char* symbol) const {
  void* const found = dlsym(library_, symbol);
  if (!found) refuse(meaning_);
  return found;
}

}  // namespace ringspan::comm
