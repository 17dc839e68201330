// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/graph.hpp"

#include <utility>

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

/// Messages are captured, too, from begin() to end(), where the transport can.
class Messages {
 public:
  explicit Messages(const CudaDevice& device) : capture_(device.capture()) {}
  ~Messages() { end(nullptr); }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void begin() {
    if (capture_.begin) capture_.begin();
    begun_ = true;
  }
  /// How to launch a graph with messages.
  std::function<void()> end(const std::shared_ptr<Executable>& executable) {
    return std::exchange(begun_, false) && capture_.end ? capture_.end(executable) : nullptr;
  }

 private:
  const CudaDevice::Capture capture_;
  bool begun_ = false;
};

}  // namespace

Graph::Graph(CudaDevice& device, const std::function<void()>& work) : device_(device) {
  RINGSPAN_REQUIRE(!device.blocking(),
                   "a graph is captured without running; a blocking device would wait for it");
  const auto& gpu = device.compute().shared_gpu();
  const Current current(*gpu);
  Messages messages(device);  // which ends after the capture, for then its streams can be asked
  Capture capture(device.compute());
  messages.begin();
  work();
  executable_ = std::make_shared<Executable>(gpu, capture.finish());
  launch_ = messages.end(executable_);
}

void Graph::launch() { launch_ ? launch_() : executable_->launch(device_.compute()); }

}  // namespace ringspan::comm::cuda
