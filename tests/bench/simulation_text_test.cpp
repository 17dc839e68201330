// SPDX-License-Identifier: Apache-2.0
#include "bench/run/simulation_text.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <mutex>

#include "bench/run/simulation_process.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

TEST(SimulationTextTest, AMeasurementKeepsEveryBit) {
  Measurement sent;
  sent.times.exact = true;
  sent.times.overlapped = {1.0 / 3};
  sent.times.kernel_overlapped = {5e-324};
  sent.sent = {{1ll << 62, 2, 3, 0}};
  sent.closed_form = {{4, 5, 6}};
  sent.peak_bytes = 7;
  const Measurement received = measurement(text(sent));
  EXPECT_TRUE(received.times.exact);
  EXPECT_EQ(received.times.overlapped, sent.times.overlapped);
  EXPECT_EQ(received.times.kernel_overlapped, sent.times.kernel_overlapped);
  ASSERT_EQ(received.sent.size(), 1u);
  EXPECT_EQ(received.sent[0].bytes_sent, 1ll << 62);
  EXPECT_EQ(received.sent[0].inter_node_bytes_sent, 2);
  EXPECT_EQ(received.sent[0].messages_sent, 3);
  EXPECT_EQ(received.closed_form, sent.closed_form);
  EXPECT_EQ(received.peak_bytes, 7);
}

TEST(SimulationTextTest, AFailureIsThrownAsItWas) {
  try {
    measurement(text(Error(ErrorKind::timeout, "rank 3: \"no\" \xff")));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    EXPECT_STREQ(error.what(), "rank 3: \"no\" \xef\xbf\xbd");
  }
}

// The point is refused, but by a copy of this process.
TEST(SimulateApartTest, StartsNoCopyWhileAnotherThreadHoldsALockOfALibrary) {
  using std::chrono::milliseconds;
  const auto simulate = [] { EXPECT_THROW(simulate_apart({}, {}, comm::Cluster{}), Error); };
  std::unique_lock held(starting_copies());
  std::future<void> done = std::async(std::launch::async, simulate);
  EXPECT_EQ(done.wait_for(milliseconds(300)), std::future_status::timeout);
  held.unlock();
  EXPECT_EQ(done.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

}  // namespace
}  // namespace ringspan::bench
