// SPDX-License-Identifier: Apache-2.0
// Modules of the emulated driver: whatever image is loaded, its kernels are these, compiled for the
// host from the sources that nvcc compiles. Threads run one after the other, in the stream's order.
#include <array>
#include <cstring>
#include <functional>
#include <string_view>

#include "attention/kernels/cuda/movement.hpp"
#include "tests/emulation/faults.hpp"
#include "tests/emulation/stream.hpp"

using namespace ringspan::comm::cuda;
namespace kernels = ringspan::attention::cuda;

struct CUmod_st {};

struct CUfunc_st {
  std::string_view name;
  /// Copies the arguments, as a launch does; the result runs that many threads.
  std::function<void(std::int64_t threads)> (*bind)(void** arguments);
};

namespace {

constexpr Status kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kNotFound = 500;

template <typename Task, auto kThread, auto kThreads>
std::function<void(std::int64_t)> bind(void** arguments) {
  Task task;
  std::memcpy(&task, arguments[0], sizeof(task));
  return [task](std::int64_t threads) {
    for (std::int64_t i = 0; i < threads; ++i) {
      if (i < kThreads(task)) kThread(task, i);
    }
  };
}

template <typename Task>
constexpr auto kCount = [](const Task& task) { return kernels::threads(task); };
constexpr auto kRows = [](const kernels::Merge& task) { return kernels::rows(task); };

std::array<CUfunc_st, 5> functions{{
    {"ringspan_copy", bind<kernels::Move, kernels::copy, kCount<kernels::Move>>},
    {"ringspan_accumulate", bind<kernels::Move, kernels::accumulate, kCount<kernels::Move>>},
    {"ringspan_fill", bind<kernels::Fill, kernels::fill, kCount<kernels::Fill>>},
    {"ringspan_merge_out", bind<kernels::Merge, kernels::merge_out, kCount<kernels::Merge>>},
    {"ringspan_merge_rows", bind<kernels::Merge, kernels::merge_rows, kRows>},
}};

}  // namespace

extern "C" {

Status cuModuleLoadData(ModuleHandle* module, const void* image) {
  if (const Status status = emulation_injected("cuModuleLoadData")) return status;
  if (emulation::current_ordinal() < 0) return kInvalidContext;
  if (!image) return kInvalidValue;
  *module = new CUmod_st;
  return kSuccess;
}

Status cuModuleUnload(ModuleHandle module) {
  delete module;
  return kSuccess;
}

Status cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  if (!module) return kInvalidHandle;
  for (CUfunc_st& known : functions) {
    if (known.name == name) {
      *function = &known;
      return kSuccess;
    }
  }
  return kNotFound;
}

Status cuLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                      StreamHandle stream, void** arguments, void**) {
  if (const Status status = emulation_injected("cuLaunchKernel")) return status;
  if (!function || !stream) return kInvalidHandle;
  const std::int64_t threads = std::int64_t{grid_x} * block_x;
  if (threads == 0 || block_x > 1024 || grid_y * grid_z * block_y * block_z != 1)
    return kInvalidValue;
  stream->queue->push([run = function->bind(arguments), threads] { run(threads); });
  return kSuccess;
}
}
