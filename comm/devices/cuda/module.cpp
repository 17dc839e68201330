// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/module.hpp"

#include <limits>

#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

constexpr unsigned kSharedWithoutAsking = 48 << 10;  // bytes of a block, on all GPUs so far

bool not_for_this_gpu(Status status) {
  return status == kErrorInvalidImage || status == kErrorNoBinary || status == kErrorInvalidPtx ||
         status == kErrorNewerPtx;
}

}  // namespace

Module::Module(std::shared_ptr<const Gpu> gpu, const void* image) : gpu_(std::move(gpu)) {
  const Current current(*gpu_);
  const Status status = gpu_->api().load_module(&handle_, image);
  try {
    gpu_->check(status, "cuModuleLoadData");
  } catch (const Error& error) {
    if (!not_for_this_gpu(status)) throw;
    throw Error(ErrorKind::not_available, error.what());
  }
}

Module::~Module() {
  const Current current(*gpu_);
  gpu_->api().unload_module(handle_);
}

FunctionHandle Module::find(const char* name, unsigned shared_bytes) const {
  const Current current(*gpu_);
  FunctionHandle function = nullptr;
  gpu_->check(gpu_->api().find_function(&function, handle_, name), "cuModuleGetFunction");
  if (shared_bytes > kSharedWithoutAsking) {
    gpu_->check(gpu_->api().set_function_attribute(function, kMaxDynamicSharedBytes,
                                                   static_cast<int>(shared_bytes)),
                "cuFuncSetAttribute");
  }
  return function;
}

Grid Module::grid_of(std::int64_t threads) {
  const std::int64_t blocks = (threads + kBlock - 1) / kBlock;
  RINGSPAN_REQUIRE(blocks <= std::numeric_limits<std::int32_t>::max(), "a kernel of ", threads,
                   " threads; a GPU starts at most ", kBlock, " * (2^31 - 1) at once");
  return {.x = static_cast<unsigned>(blocks), .threads = kBlock};
}

void Module::launch_with(const Stream& stream, FunctionHandle function, const Grid& grid,
                         void* argument) const {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const Current current(*gpu_);
  gpu_->check(gpu_->api().launch(function, grid.x, grid.y, grid.z, grid.threads, 1, 1,
                                 grid.shared_bytes, stream.handle(), &argument, nullptr),
              "cuLaunchKernel");
}

}  // namespace ringspan::comm::cuda
