// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/devices/cuda/gpu.hpp"

namespace ringspan::comm::cuda {

/// What a graph that has been captured is launched by. NCCL's communicator does not end as long as
/// one with its messages is there, so whoever ends that may let go of this first.
class Executable {
 public:
  /// Takes the graph. Throws system, in the driver's words, if it cannot be launched.
  Executable(std::shared_ptr<const Gpu> gpu, GraphHandle graph);
  ~Executable() { let_go(); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// Queues it; it has not been let go of.
  void launch(const Stream& stream) const;
  /// What is queued still runs.
  void let_go();

 private:
  const std::shared_ptr<const Gpu> gpu_;
  ExecutableHandle handle_ = nullptr;
};

}  // namespace ringspan::comm::cuda
