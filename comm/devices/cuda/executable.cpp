// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/executable.hpp"

#include <utility>

namespace ringspan::comm::cuda {

Executable::Executable(std::shared_ptr<const Gpu> gpu, GraphHandle graph) : gpu_(std::move(gpu)) {
  const Status status = gpu_->api().instantiate_graph(&handle_, graph, 0);
  gpu_->api().destroy_graph(graph);
  gpu_->check(status, "cuGraphInstantiateWithFlags");
}

void Executable::launch(const Stream& stream) const {
  const Current current(*gpu_);
  gpu_->check(gpu_->api().launch_graph(handle_, stream.handle()), "cuGraphLaunch");
}

void Executable::let_go() {
  if (handle_) gpu_->api().destroy_executable(std::exchange(handle_, nullptr));
}

}  // namespace ringspan::comm::cuda
