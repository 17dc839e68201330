// SPDX-License-Identifier: Apache-2.0
// A GPU of which only the times count. What moves values that the host looks at does so when it is
// issued; its time passes on the compute queue.
#include "comm/devices/host.hpp"
#include "comm/error.hpp"
#include "comm/transports/simulated/engine.hpp"
#include "comm/transports/simulated/simulation.hpp"

namespace ringspan::comm::simulated {
namespace {

class SimulatedDevice final : public Device {
 public:
  explicit SimulatedDevice(Engine& engine) : engine_(engine) {}

  std::string_view name() const override { return "simulated"; }

  Buffer allocate(std::int64_t bytes) override { return engine_.memory().allocate(bytes); }
  Buffer allocate_values(std::int64_t bytes) override {
    return engine_.memory().allocate_values(bytes);
  }
  MemoryUse memory() const override { return engine_.memory().use(); }
  void reset_peak() override { engine_.memory().reset_peak(); }

  void copy(const Slice& to, const Slice& from) override {
    move("copy", 2 * to.bytes());
    if (have_storage(to, from)) copy_slice(to, from);
  }

  void copy_all(std::span<const Copy> copies) override {
    std::int64_t bytes = 0;
    for (const Copy& each : copies) {
      bytes += 2 * each.to.bytes();
      if (have_storage(each.to, each.from)) copy_slice(each.to, each.from);
    }
    move("copy", bytes);
  }

  void reduce(const Slice& to, const Slice& from, Element element, Reduction reduction) override {
    move("reduce", 3 * to.bytes());
    if (have_storage(to, from)) host_->reduce(to, from, element, reduction);
  }

  void compute(double seconds, std::string_view kernel) override {
    engine_.compute(seconds, kernel);
  }
  double queued_seconds() const override { return engine_.queued_seconds(); }
  const Cluster* cluster() const override { return &engine_.simulation().cluster(); }

  // In virtual time a wait in vain is noticed at once.
  void synchronize(double) override { engine_.synchronize(); }
  double now() const override { return engine_.host_time(); }

  void poll() override { engine_.require_working(); }
  double poll_seconds() const override { return 0; }
  void on_poll(std::function<void()>) override {}

 private:
  bool have_storage(const Slice& a, const Slice& b) const {
    return engine_.memory().has_storage(a) && engine_.memory().has_storage(b);
  }

  void move(std::string_view name, std::int64_t bytes) {
    if (bytes == 0) return;
    engine_.compute(static_cast<double>(bytes) / cluster()->gpu.memory_bytes_per_second, name);
  }

  Engine& engine_;
  const std::unique_ptr<Device> host_ = make_host_device();
};

}  // namespace

std::unique_ptr<Device> make_simulated_device(Engine& engine) {
  return std::make_unique<SimulatedDevice>(engine);
}

}  // namespace ringspan::comm::simulated
