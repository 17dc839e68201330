// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/device.hpp"
#include "comm/trace.hpp"

namespace ringspan::bench {

/// A device with what it copies and reduces told as kernels.
class TracedDevice final : public comm::Device {
 public:
  /// References outlive it.
  TracedDevice(comm::Device& inner, const comm::Trace& trace, int world_rank)
      : inner_(inner), trace_(trace), rank_(world_rank) {}

  std::string_view name() const override { return inner_.name(); }
  bool host_reaches_memory() const override { return inner_.host_reaches_memory(); }
  comm::Buffer allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
  comm::Buffer allocate_values(std::int64_t bytes) override {
    return inner_.allocate_values(bytes);
  }
  comm::MemoryUse memory() const override { return inner_.memory(); }
  void reset_peak() override { inner_.reset_peak(); }

  void copy(const comm::Slice& to, const comm::Slice& from) override {
    const double start = now();
    inner_.copy(to, from);
    tell("copy", start);
  }
  void copy_all(std::span<const comm::Copy> copies) override {
    if (copies.empty()) return;
    const double start = now();
    inner_.copy_all(copies);
    tell("copy", start);
  }
  void reduce(const comm::Slice& to, const comm::Slice& from, comm::Element element,
              comm::Reduction reduction) override {
    const double start = now();
    inner_.reduce(to, from, element, reduction);
    tell("reduce", start);
  }
  void compute(double seconds, std::string_view kernel) override {
    inner_.compute(seconds, kernel);
  }
  double queued_seconds() const override { return inner_.queued_seconds(); }
  const comm::Cluster* cluster() const override { return inner_.cluster(); }

  void synchronize(double deadline) override { inner_.synchronize(deadline); }
  double now() const override { return inner_.now(); }
  void poll() override { inner_.poll(); }
  double poll_seconds() const override { return inner_.poll_seconds(); }
  void on_poll(std::function<void()> progress) override { inner_.on_poll(std::move(progress)); }

 private:
  void tell(std::string_view kernel, double start) const {
    trace_({comm::TraceSpan::Kind::kernel, rank_, kernel, start, now()});
  }

  comm::Device& inner_;
  const comm::Trace& trace_;
  const int rank_;
};

}  // namespace ringspan::bench
