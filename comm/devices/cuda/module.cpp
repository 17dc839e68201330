// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/module.hpp"

#include <limits>

#include "comm/error.hpp"

namespace ringspan::comm::cuda {

Module::Module(std::shared_ptr<const Gpu> gpu, const void* image) : gpu_(std::move(gpu)) {
  const Current current(*gpu_);
  gpu_->check(gpu_->api().load_module(&handle_, image), "cuModuleLoadData");
}

Module::~Module() {
  const Current current(*gpu_);
  gpu_->api().unload_module(handle_);
}

FunctionHandle Module::find(const char* name) const {
  const Current current(*gpu_);
  FunctionHandle function = nullptr;
  gpu_->check(gpu_->api().find_function(&function, handle_, name), "cuModuleGetFunction");
  return function;
}

void Module::launch_with(const Stream& stream, FunctionHandle function, std::int64_t threads,
                         void* argument) const {
  if (threads == 0) return;
  const std::int64_t blocks = (threads - 1) / kBlock + 1;
  RINGSPAN_REQUIRE(blocks <= std::numeric_limits<std::int32_t>::max(), "a kernel of ", threads,
                   " threads; a GPU starts at most ", kBlock, " * (2^31 - 1) at once");
  const Current current(*gpu_);
  gpu_->check(gpu_->api().launch(function, static_cast<unsigned>(blocks), 1, 1, kBlock, 1, 1, 0,
                                 stream.handle(), &argument, nullptr),
              "cuLaunchKernel");
}

}  // namespace ringspan::comm::cuda
