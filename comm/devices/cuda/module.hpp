// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "comm/devices/cuda/gpu.hpp"

namespace ringspan::comm::cuda {

/// Blocks along x, y and z; threads of each along x, and their dynamic shared memory.
struct Grid {
  unsigned x = 1, y = 1, z = 1;
  unsigned threads = 1;
  unsigned shared_bytes = 0;
};

/// Kernels of one image (a fat binary, a cubin or PTX), loaded on one GPU.
class Module {
 public:
  /// Throws not_available if the image has nothing that this GPU and its driver can run, system for
  /// any other failure. The image is not needed any more afterwards.
  Module(std::shared_ptr<const Gpu> gpu, const void* image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Lives as long as the module. Throws system if there is none of this name, or if no block of it
  /// can have that much dynamic shared memory; none above 48 KiB has more than was asked for here.
  FunctionHandle find(const char* name, unsigned shared_bytes = 0) const;

  /// Queues `function`, unless there are no blocks. Its one parameter, `argument`, is copied before
  /// this returns.
  template <typename Argument>
  void launch(const Stream& stream, FunctionHandle function, const Grid& grid,
              Argument argument) const {
    launch_with(stream, function, grid, &argument);
  }

  /// For at least so many threads along x, in blocks of kBlock; the kernel itself leaves out those
  /// beyond. Throws invalid_argument if a GPU cannot start so many at once.
  static Grid grid_of(std::int64_t threads);
  static constexpr int kBlock = 256;

 private:
  void launch_with(const Stream& stream, FunctionHandle function, const Grid& grid,
                   void* argument) const;

  const std::shared_ptr<const Gpu> gpu_;
  ModuleHandle handle_ = nullptr;
};

}  // namespace ringspan::comm::cuda
