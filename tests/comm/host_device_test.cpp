// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "comm/devices/host.hpp"
#include "tests/comm/pattern.hpp"

namespace ringspan::comm {
namespace {

using test::byte_of;
using test::has_pattern;
using test::refusal;
using test::write_pattern;

TEST(HostDeviceTest, CountsWhatItHandsOut) {
  const auto device = make_host_device();
  Buffer first = device->allocate(100);
  {
    const Buffer second = device->allocate(50);
    EXPECT_EQ(device->memory().current, 150);
  }
  EXPECT_EQ(device->memory().current, 100);
  EXPECT_EQ(device->memory().peak, 150);
  device->reset_peak();
  EXPECT_EQ(device->memory().peak, 100);
  EXPECT_EQ(device->allocate(0).bytes(), 0);
  EXPECT_EQ(refusal([&] { device->allocate(-1); }), "allocate: -1 bytes; a size is not negative");
}

TEST(HostDeviceTest, AlignsToCacheLines) {
  const auto device = make_host_device();
  for (int bytes : {0, 1, 65})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device->allocate(bytes).data()) % 64, 0u);
}

TEST(HostDeviceTest, GoesBeforeItsBuffers) {
  Buffer buffer;
  {
    const auto device = make_host_device();
    buffer = device->allocate(8);
  }
  buffer.data()[7] = std::byte{1};
}

TEST(HostDeviceTest, FillsBuffersWithNaNWhenAskedTo) {
  const Buffer buffer = make_host_device(/*poison=*/true)->allocate(8);
  double value;
  std::memcpy(&value, buffer.data(), sizeof value);
  EXPECT_TRUE(std::isnan(value));
}

TEST(HostDeviceTest, CopiesBetweenAnyRows) {
  const auto device = make_host_device();
  for (const std::int64_t from_rows : {1, 2, 5, 60}) {
    for (const std::int64_t to_rows : {1, 3, 4, 60}) {
      const std::int64_t from_bytes = 60 / from_rows, to_bytes = 60 / to_rows;
      const Slice from{device->allocate(300), 2, from_rows, from_bytes, from_bytes + 3};
      const Slice to{device->allocate(300), 5, to_rows, to_bytes, to_bytes + 1};
      write_pattern(from, 1, 2, 3);
      device->copy(to, from);
      EXPECT_TRUE(has_pattern(to, 1, 2, 3)) << from_rows << " rows to " << to_rows;
    }
  }
}

template <typename Value>
void expect_reduced(Device& device, Element element, Reduction reduction, Value wanted) {
  const Buffer to = device.allocate(3 * sizeof(Value)), from = device.allocate(3 * sizeof(Value));
  const Value a[] = {1, 2, -3}, b[] = {4, -5, -6};
  std::memcpy(to.data(), a, sizeof a);
  std::memcpy(from.data(), b, sizeof b);
  device.reduce(whole(to), whole(from), element, reduction);
  Value last;
  std::memcpy(&last, to.data() + 2 * sizeof(Value), sizeof last);
  EXPECT_EQ(last, wanted);
}

TEST(HostDeviceTest, ReducesEveryKindOfElement) {
  const auto device = make_host_device();
  expect_reduced<float>(*device, Element::f32, Reduction::sum, -9);
  expect_reduced<double>(*device, Element::f64, Reduction::min, -6);
  expect_reduced<std::int64_t>(*device, Element::i64, Reduction::max, -3);
}

TEST(HostDeviceTest, PollsAtIntervalsAndCountsTheTime) {
  const auto device = make_host_device();
  device->poll();  // nothing installed
  int polled = 0;
  device->on_poll([&] { ++polled; });
  const double end = device->now() + 2e-3;
  int calls = 0;
  for (; device->now() < end; ++calls) device->poll();
  EXPECT_GE(polled, 1);
  EXPECT_LE(polled, 101);  // 20 microseconds apart
  EXPECT_LT(polled, calls);
  EXPECT_GT(device->poll_seconds(), 0);
  device->on_poll([] { throw std::runtime_error("boom"); });
  EXPECT_THROW(for (;;) device->poll(), std::runtime_error);
}

// However long a transport takes to look, kernels keep nearly all of the time.
TEST(HostDeviceTest, PollsSeldomWhereAPollTakesLong) {
  constexpr double kTakes = 40e-6;
  const auto device = make_host_device();
  int polled = 0;
  device->on_poll([&] {
    ++polled;
    const double end = device->now() + kTakes;
    while (device->now() < end) {
    }
  });
  const double start = device->now();
  while (device->now() < start + 20e-3) device->poll();
  EXPECT_GE(polled, 1);
  EXPECT_LE(polled, 1 + (device->now() - start) / (20 * kTakes));
}

}  // namespace
}  // namespace ringspan::comm
