// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/cluster.hpp"
#include "comm/device.hpp"

namespace ringspan::attention {

/// Writes down what modelled kernels queue; has no memory, and no time passes.
class ModelledDevice final : public comm::Device {
 public:
  struct Call {
    std::string kernel;
    double seconds;
  };

  explicit ModelledDevice(comm::Gpu gpu) { cluster_.gpu = std::move(gpu); }

  std::vector<Call> calls;
  bool host_reaches = true;

  std::string_view name() const override { return "simulated"; }
  bool host_reaches_memory() const override { return host_reaches; }
  comm::Buffer allocate(std::int64_t) override { return {}; }
  comm::MemoryUse memory() const override { return {}; }
  void reset_peak() override {}
  void copy(const comm::Slice&, const comm::Slice&) override {}
  void reduce(const comm::Slice&, const comm::Slice&, comm::Element, comm::Reduction) override {}
  void compute(double seconds, std::string_view kernel) override {
    calls.push_back({std::string(kernel), seconds});
  }
  const comm::Cluster* cluster() const override { return &cluster_; }
  void synchronize(double) override {}
  double now() const override { return 0; }
  void poll() override {}
  double poll_seconds() const override { return 0; }
  void on_poll(std::function<void()>) override {}

 private:
  comm::Cluster cluster_;
};

}  // namespace ringspan::attention
