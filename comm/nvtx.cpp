// SPDX-License-Identifier: Apache-2.0
// The application's half of NVTX 3, as far as it is used here, by the layout of its tables: the
// profiler's library is given one of functions by number, and puts its own where it wants calls.
#include "comm/nvtx.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "comm/dynamic_library.hpp"
#include "comm/error.hpp"

namespace ringspan::comm {
namespace {

using Function = void (*)();
using Slots = std::array<Function, 17>;

constexpr int kCore = 1, kPush = 9, kPop = 11;  // NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_...
constexpr std::uint32_t kCallbacks = 1, kVersionInfo = 3;  // NVTX_ETID_...
// Functions of each module, which all must have a place.
constexpr std::array<unsigned, 7> kSizes{0, 16, 9, 15, 7, 16, 7};

/// A function of each module by its number; null: the profiler does not want to know.
std::array<Slots, kSizes.size()>& functions() {
  static std::array<Slots, kSizes.size()> all{};
  return all;
}

int module_table(int module, Function*** table, unsigned* size) {
  static std::array<std::array<Function*, 18>, kSizes.size()> tables{};
  if (module < 1 || module >= static_cast<int>(kSizes.size())) return 0;
  for (unsigned i = 1; i < kSizes[module]; ++i) tables[module][i] = &functions()[module][i];
  if (table) *table = tables[module].data();
  if (size) *size = kSizes[module];
  return 1;
}

void take_version(std::uint32_t) {}

const void* export_table(std::uint32_t id) {
  static const struct {
    std::size_t bytes = sizeof(*this);
    int (*module_table)(int, Function***, unsigned*) = ringspan::comm::module_table;
  } callbacks;
  static const struct {
    std::size_t bytes = sizeof(*this);
    std::uint32_t version = 3, reserved = 0;
    void (*take_version)(std::uint32_t) = ringspan::comm::take_version;
  } version_info;
  if (id == kCallbacks) return &callbacks;
  return id == kVersionInfo ? &version_info : nullptr;
}

/// What the profiler wants called; null without one.
struct Profiler {
  Profiler() {
    const char* const path = std::getenv("NVTX_INJECTION64_PATH");
    if (!path) return;
    try {
      int (*attach)(const void* (*)(std::uint32_t)) = nullptr;
      DynamicLibrary("no profiler", path).find(attach, "InitializeInjectionNvtx2");
      if (attach(export_table) == 0) return;
    } catch (const Error&) {
      return;  // as NVIDIA's own headers do: the program runs without its ranges
    }
    push = reinterpret_cast<int (*)(const char*)>(functions()[kCore][kPush]);
    pop = reinterpret_cast<int (*)()>(functions()[kCore][kPop]);
  }

  int (*push)(const char* name) = nullptr;
  int (*pop)() = nullptr;
};

const Profiler& profiler() {
  static const Profiler only;
  return only;
}

}  // namespace

NvtxRange::NvtxRange(std::string_view name) {
  if (profiler().push) profiler().push(std::string(name).c_str());
}

NvtxRange::~NvtxRange() {
  if (profiler().pop) profiler().pop();
}

}  // namespace ringspan::comm
