// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "comm/devices/cuda/device.hpp"

namespace ringspan::comm::cuda {

/// What a function queues on a device's compute stream, to be queued again by one call: kernels and
/// copies, with the addresses and sizes they had. Messages cannot be part of it: their order and
/// flags are new each time.
class Graph {
 public:
  /// Calls `work`, none of which runs yet. Throws invalid_argument for a blocking device, which
  /// would wait for what does not run; what `work` throws; system, in the driver's words, if it has
  /// queued what no graph can hold.
  Graph(CudaDevice& device, const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Queues all of it on the compute stream. What it works on must still be there.
  void launch();

 private:
  CudaDevice& device_;
  const std::shared_ptr<const Gpu> gpu_;
  GraphHandle graph_ = nullptr;
  ExecutableHandle executable_ = nullptr;
};

}  // namespace ringspan::comm::cuda
