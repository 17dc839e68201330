// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "comm/devices/cuda/gpu.hpp"

namespace ringspan::comm::cuda {

/// Kernels of one image (a fat binary, a cubin or PTX), loaded on one GPU.
class Module {
 public:
  /// Throws system if the driver cannot use the image, which is not needed any more afterwards.
  Module(std::shared_ptr<const Gpu> gpu, const void* image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Lives as long as the module. Throws system if there is none of this name.
  FunctionHandle find(const char* name) const;

  /// Queues `function` for at least so many threads along x, in blocks of kBlock; the kernel itself
  /// leaves out those beyond. Its one parameter, `argument`, is copied before this returns.
  template <typename Argument>
  void launch(const Stream& stream, FunctionHandle function, std::int64_t threads,
              Argument argument) const {
    launch_with(stream, function, threads, &argument);
  }

  static constexpr int kBlock = 256;

 private:
  void launch_with(const Stream& stream, FunctionHandle function, std::int64_t threads,
                   void* argument) const;

  const std::shared_ptr<const Gpu> gpu_;
  ModuleHandle handle_ = nullptr;
};

}  // namespace ringspan::comm::cuda
