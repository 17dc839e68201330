// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "comm/devices/cuda/device.hpp"
#include "comm/devices/cuda/executable.hpp"

namespace ringspan::comm::cuda {

/// What a function queues on a device's compute stream, to be queued again by one call: kernels and
/// copies, with the addresses and sizes they had. On transport `nccl` also messages: those that are
/// posted and waited for in the function. All ranks then capture, and launch, the same graphs in
/// the same order, among each other and among their posts; a launch posts all messages anew.
///
/// The caller keeps all memory that was there before, that of messages too, as long as a launch may
/// use it. A graph with messages can be launched until its rank's function returns.
class Graph {
 public:
  /// Calls `work`, none of which runs yet. Throws invalid_argument for a blocking device, which
  /// would wait for what does not run; what `work` throws; system, in the driver's words, if it has
  /// queued what no graph can hold, or has not waited for a message.
  Graph(CudaDevice& device, const std::function<void()>& work);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Queues all of it on the compute stream. What it works on must still be there. With messages it
  /// throws what a post does.
  void launch();

 private:
  CudaDevice& device_;
  std::shared_ptr<Executable> executable_;
  std::function<void()> launch_;  // the transport's, if there are messages
};

}  // namespace ringspan::comm::cuda
