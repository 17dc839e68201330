// SPDX-License-Identifier: Apache-2.0
// The host as a device: work runs at once on the calling thread, so the compute queue is always
// empty.
#include "comm/devices/host.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>

#include "comm/devices/memory_counters.hpp"
#include "comm/error.hpp"
#include "comm/reproducible_sum.hpp"

namespace ringspan::comm {
namespace {

constexpr std::align_val_t kAlignment{64};
// Seconds from one poll to the next. Some transports take many system calls to look for a message,
// so a poll that took long has a longer pause after it: a twentieth of a kernel's time is enough.
constexpr double kShortestPause = 20e-6, kLongestPause = 1e-3;
constexpr double kPausePerPoll = 20;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void fill_with_nan(std::byte* data, std::int64_t bytes) {
  std::memset(data, 0xff, bytes);  // a quiet NaN in fp64, fp32, bf16 and fp16 alike
}

template <typename Value>
void add_values(std::byte* to, const std::byte* from, std::int64_t count) {
  auto* a = reinterpret_cast<Value*>(to);
  const auto* b = reinterpret_cast<const Value*>(from);
  for (std::int64_t i = 0; i < count; ++i) a[i] += b[i];
}

template <typename Value>
void reduce_values(std::byte* to, const std::byte* from, std::int64_t count, Reduction reduction) {
  auto* a = reinterpret_cast<Value*>(to);
  const auto* b = reinterpret_cast<const Value*>(from);
  switch (reduction) {
    case Reduction::sum: return add_values<Value>(to, from, count);
    case Reduction::min:
      for (std::int64_t i = 0; i < count; ++i) a[i] = std::min(a[i], b[i]);
      return;
    case Reduction::max:
      for (std::int64_t i = 0; i < count; ++i) a[i] = std::max(a[i], b[i]);
      return;
  }
}

class HostDevice final : public Device {
 public:
  explicit HostDevice(bool poison) : poison_(poison) {}

  std::string_view name() const override { return "host"; }

  Buffer allocate(std::int64_t bytes) override {
    RINGSPAN_REQUIRE(bytes >= 0, "allocate: ", bytes, " bytes; a size is not negative");
    auto* data =
        static_cast<std::byte*>(::operator new(std::max<std::int64_t>(bytes, 1), kAlignment));
    if (poison_) fill_with_nan(data, bytes);
    counters_->add(bytes);
    return Buffer(data, bytes, [data, bytes, poison = poison_, counters = counters_] {
      if (poison) fill_with_nan(data, bytes);
      counters->subtract(bytes);
      ::operator delete(data, kAlignment);
    });
  }

  MemoryUse memory() const override { return counters_->use(); }
  void reset_peak() override { counters_->reset_peak(); }

  void copy(const Slice& to, const Slice& from) override { copy_slice(to, from); }

  void reduce(const Slice& to, const Slice& from, Element element, Reduction reduction) override {
    const std::int64_t count = to.bytes() / element_bytes(element);
    switch (element) {
      case Element::f32: return reduce_values<float>(to.data(), from.data(), count, reduction);
      case Element::f64: return reduce_values<double>(to.data(), from.data(), count, reduction);
      case Element::i64:
        return reduce_values<std::int64_t>(to.data(), from.data(), count, reduction);
      case Element::reproducible:
        RINGSPAN_REQUIRE(reduction == Reduction::sum,
                         "reduce: reproducible sums can only be added, not compared");
        return add_values<ReproducibleSum>(to.data(), from.data(), count);
    }
  }

  void synchronize(double) override {}
  double now() const override { return seconds_now(); }

  void poll() override {
    if (!progress_) return;
    const double start = seconds_now();
    if (start < next_poll_) return;
    progress_();
    const double end = seconds_now();
    poll_seconds_ += end - start;
    next_poll_ = end + std::clamp(kPausePerPoll * (end - start), kShortestPause, kLongestPause);
  }
  double poll_seconds() const override { return poll_seconds_; }
  void on_poll(std::function<void()> progress) override { progress_ = std::move(progress); }

 private:
  const bool poison_;
  std::shared_ptr<MemoryCounters> counters_ = std::make_shared<MemoryCounters>();
  std::function<void()> progress_;
  double next_poll_ = -std::numeric_limits<double>::infinity();
  double poll_seconds_ = 0;
};

}  // namespace

std::int64_t element_bytes(Element element) {
  switch (element) {
    case Element::f32: return 4;
    case Element::f64:
    case Element::i64: return 8;
    case Element::reproducible: return sizeof(ReproducibleSum);
  }
  return 0;
}

std::unique_ptr<Device> make_host_device(bool poison) {
  return std::make_unique<HostDevice>(poison);
}

void copy_slice(const Slice& to, const Slice& from) {
  std::int64_t to_row = 0, from_row = 0;
  // Bytes of the current rows.
  std::int64_t to_done = 0, from_done = 0;
  for (std::int64_t left = to.bytes(); left > 0;) {
    const std::int64_t bytes =
        to.contiguous() && from.contiguous()
            ? left
            : std::min(to.contiguous() ? left : to.row_bytes - to_done,
                       from.contiguous() ? left : from.row_bytes - from_done);
    std::memcpy(to.data() + to_row * to.stride + to_done,
                from.data() + from_row * from.stride + from_done, bytes);
    left -= bytes;
    to_done += bytes;
    from_done += bytes;
    if (!to.contiguous() && to_done == to.row_bytes) ++to_row, to_done = 0;
    if (!from.contiguous() && from_done == from.row_bytes) ++from_row, from_done = 0;
  }
}

}  // namespace ringspan::comm
