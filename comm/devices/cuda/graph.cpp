// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/graph.hpp"

#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

/// A stream that takes calls of this thread down instead of running them, until finish().
class Capture {
 public:
  explicit Capture(const Stream& stream) : stream_(stream) {
    stream_.gpu().check(stream_.gpu().api().begin_capture(stream_.handle(), kCaptureThreadLocal),
                        "cuStreamBeginCapture");
  }
  ~Capture() {
    GraphHandle unwanted = nullptr;
    if (!finished_ && end(unwanted) == kSuccess && unwanted)
      stream_.gpu().api().destroy_graph(unwanted);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  GraphHandle finish() {
    GraphHandle graph = nullptr;
    finished_ = true;
    stream_.gpu().check(end(graph), "cuStreamEndCapture");
    return graph;
  }

 private:
  Status end(GraphHandle& graph) const {
    return stream_.gpu().api().end_capture(stream_.handle(), &graph);
  }

  const Stream& stream_;
  bool finished_ = false;
};

}  // namespace

Graph::Graph(CudaDevice& device, const std::function<void()>& work)
    : device_(device), gpu_(device.compute().shared_gpu()) {
  RINGSPAN_REQUIRE(!device.blocking(),
                   "a graph is captured without running; a blocking device would wait for it");
  const Current current(*gpu_);
  Capture capture(device_.compute());
  work();
  graph_ = capture.finish();
  const Status status = gpu_->api().instantiate_graph(&executable_, graph_, 0);
  if (status != kSuccess) gpu_->api().destroy_graph(graph_);
  gpu_->check(status, "cuGraphInstantiateWithFlags");
}

Graph::~Graph() {
  gpu_->api().destroy_executable(executable_);
  gpu_->api().destroy_graph(graph_);
}

void Graph::launch() {
  const Current current(*gpu_);
  gpu_->check(gpu_->api().launch_graph(executable_, device_.compute().handle()), "cuGraphLaunch");
}

}  // namespace ringspan::comm::cuda
