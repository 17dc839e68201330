// SPDX-License-Identifier: Apache-2.0
// CUDA's rules for captures of more than one stream, which the emulated driver keeps.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "comm/devices/cuda/executable.hpp"
#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

constexpr Status kInvalidated = 901, kMerge = 903, kUnmatched = 902, kUnjoined = 904,
                 kIsolation = 905, kCapturedEvent = 907;

class CaptureRulesTest : public testing::Test {
 protected:
  ~CaptureRulesTest() override {
    GraphHandle graph = nullptr;
    api_.end_capture(first_.handle(), &graph);
  }

  void begin(const Stream& stream) const {
    ASSERT_EQ(api_.begin_capture(stream.handle(), kCaptureThreadLocal), kSuccess);
  }
  Status end(const Stream& stream) const {
    GraphHandle graph = nullptr;
    const Status status = api_.end_capture(stream.handle(), &graph);
    if (graph) api_.destroy_graph(graph);
    return status;
  }
  Status wait(const Stream& stream, const Event& event) const {
    return api_.stream_wait_event(stream.handle(), event.handle(), 0);
  }
  // A capture on the first stream that the second has joined.
  void fork() const {
    begin(first_);
    first_.record(forked_);
    second_.wait(forked_);
  }

  const std::shared_ptr<const Gpu> gpu_ = std::make_shared<const Gpu>(load_cuda(), 0);
  const Api& api_ = gpu_->api();
  const Current current_{*gpu_};
  const Stream first_{gpu_}, second_{gpu_};
  const Event forked_{gpu_}, joined_{gpu_}, other_{gpu_};
};

TEST_F(CaptureRulesTest, AStreamThatWaitsForACapturedEventJoins) {
  std::vector<int> order;
  const auto run = [](void* data) {
    auto& order = *static_cast<std::vector<int>*>(data);
    order.push_back(static_cast<int>(order.size()));
  };
  fork();
  EXPECT_TRUE(second_.capturing());
  ASSERT_EQ(api_.launch_host_function(second_.handle(), run, &order), kSuccess);
  second_.record(joined_);
  first_.wait(joined_);
  GraphHandle graph = nullptr;
  ASSERT_EQ(api_.end_capture(first_.handle(), &graph), kSuccess);
  EXPECT_FALSE(second_.capturing());
  EXPECT_TRUE(order.empty());
  const Executable executable(gpu_, graph);
  for (int i = 0; i < 2; ++i) executable.launch(first_);
  while (!first_.idle()) {
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

TEST_F(CaptureRulesTest, WorkThatIsNotJoinedBackSpoilsIt) {
  fork();
  EXPECT_EQ(end(first_), kUnjoined);
  EXPECT_FALSE(second_.capturing());
  fork();
  second_.record(joined_);
  first_.wait(joined_);
  first_.record(forked_);
  second_.wait(forked_);  // and is given more
  EXPECT_EQ(end(first_), kUnjoined);
}

TEST_F(CaptureRulesTest, ItEndsWhereItBegan) {
  fork();
  EXPECT_EQ(end(second_), kUnmatched);
}

TEST_F(CaptureRulesTest, ItDoesNotWaitForWhatIsNotCaptured) {
  second_.record(other_);
  begin(first_);
  EXPECT_EQ(wait(first_, other_), kIsolation);
  EXPECT_EQ(end(first_), kInvalidated);
}

TEST_F(CaptureRulesTest, AnEventOfACaptureThatIsOverIsWaitedForByNobody) {
  begin(first_);
  first_.record(forked_);
  EXPECT_EQ(end(first_), kSuccess);
  EXPECT_EQ(wait(second_, forked_), kCapturedEvent);
  EXPECT_EQ(api_.event_query(forked_.handle()), kCapturedEvent);
}

TEST_F(CaptureRulesTest, LookingAtWhatIsCapturedSpoilsIt) {
  fork();
  EXPECT_NE(api_.stream_query(second_.handle()), kSuccess);
  EXPECT_EQ(end(first_), kInvalidated);
  fork();
  EXPECT_NE(api_.event_query(forked_.handle()), kSuccess);
  EXPECT_EQ(end(first_), kInvalidated);
}

TEST_F(CaptureRulesTest, WhatItAllocatesIsReleasedBeforeItIsLaunchedAgain) {
  begin(first_);
  Address address = 0;
  ASSERT_EQ(api_.allocate(&address, 8, first_.handle()), kSuccess);
  GraphHandle graph = nullptr;
  ASSERT_EQ(api_.end_capture(first_.handle(), &graph), kSuccess);
  const Executable executable(gpu_, graph);
  executable.launch(first_);
  EXPECT_THROW(executable.launch(first_), Error);
  ASSERT_EQ(api_.release(address, first_.handle()), kSuccess);
  executable.launch(first_);
}

TEST_F(CaptureRulesTest, TwoDoNotMeet) {
  begin(second_);
  second_.record(other_);
  begin(first_);
  EXPECT_EQ(wait(first_, other_), kMerge);
  EXPECT_EQ(end(first_), kInvalidated);
  EXPECT_EQ(end(second_), kInvalidated);
}

}  // namespace
}  // namespace ringspan::comm::cuda
