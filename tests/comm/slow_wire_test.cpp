// SPDX-License-Identifier: Apache-2.0
// A message that takes longer than the deadline, on a network that tells nothing of it before it
// has come, and on which answers wait behind it.
#include <deque>

#include "comm/transports/diagnosis/clock.hpp"
#include "tests/comm/wire_under_test.hpp"

namespace ringspan::comm {
namespace slow_wire_test {

using diagnosis::seconds_since;
using diagnosis::steady_now;

constexpr std::int64_t kLong = 16 << 20;  // bytes
constexpr double kTakes = 1.0;            // seconds; at 10 MB/s it would be 1.7
constexpr double kDeadline = 0.3;

/// Done so much later than it is.
class SlowTransfer final : public processes::Transfer {
 public:
  SlowTransfer(std::unique_ptr<Transfer> transfer, std::int64_t* until)
      : transfer_(std::move(transfer)), until_(until) {}

  bool done() override { return steady_now() >= *until_ && transfer_->done(); }
  std::int64_t received() const override { return transfer_->received(); }
  bool cancel() override { return transfer_->cancel(); }

 private:
  const std::unique_ptr<Transfer> transfer_;
  const std::int64_t* const until_;
};

class SlowWire final : public test::ForwardingWire {
 public:
  using ForwardingWire::ForwardingWire;

  std::unique_ptr<processes::Transfer> send(int to, std::int64_t tag,
                                            std::span<const std::byte> bytes) override {
    return slowed(ForwardingWire::send(to, tag, bytes), to, bytes.size());
  }
  std::unique_ptr<processes::Transfer> receive(int from, std::int64_t tag,
                                               std::span<std::byte> bytes) override {
    return slowed(ForwardingWire::receive(from, tag, bytes), from, bytes.size());
  }
  std::optional<processes::Notice> receive_notice() override {
    while (auto notice = ForwardingWire::receive_notice()) waiting_.push_back(std::move(*notice));
    for (auto notice = waiting_.begin(); notice != waiting_.end(); ++notice) {
      if (notice->from == busy_with_ && steady_now() < busy_until_) continue;
      processes::Notice first = std::move(*notice);
      waiting_.erase(notice);
      return first;
    }
    return std::nullopt;
  }

 private:
  std::unique_ptr<processes::Transfer> slowed(std::unique_ptr<processes::Transfer> transfer,
                                              int peer, std::size_t bytes) {
    if (bytes < kLong) return transfer;
    busy_with_ = peer;
    busy_until_ = steady_now() + static_cast<std::int64_t>(kTakes * 1e9);
    return std::make_unique<SlowTransfer>(std::move(transfer), &busy_until_);
  }

  int busy_with_ = -1;
  std::int64_t busy_until_ = 0;
  std::deque<processes::Notice> waiting_;
};

using SlowWireTest = test::WireTest;

std::unique_ptr<processes::Wire> slow(std::unique_ptr<processes::Wire> wire) {
  return std::make_unique<SlowWire>(std::move(wire));
}

void pass(const Communicator& comm, int from, int to, std::int64_t bytes) {
  const bool takes_part = comm.rank() == from || comm.rank() == to;
  const Slice memory = whole(comm.device().allocate(takes_part ? bytes : 0));
  Send sends[] = {{to, memory}};
  Recv recvs[] = {{from, memory}};
  if (comm.rank() == from) comm.post("pass", sends, {}).wait();
  if (comm.rank() == to) comm.post("pass", {}, recvs).wait();
  if (!takes_part) comm.post("pass", {}, {}).wait();
}

// The last rank waits for one that waits for the message.
TEST_F(SlowWireTest, AMessageMayTakeLongerThanTheDeadline) {
  if (ranks(3) < 2) GTEST_SKIP() << "2 ranks, one process";
  launch(
      {.ranks = ranks(3), .deadline = kDeadline},
      [](const Communicator& comm) {
        const std::int64_t start = steady_now();
        pass(comm, 0, 1, kLong);
        EXPECT_GE(seconds_since(start), comm.rank() < 2 ? kTakes : 0);
        if (comm.size() > 2) pass(comm, 1, 2, 8);
      },
      slow);
}

// All answer, so it is known that the long one has not been sent: nobody waits longer for it.
TEST_F(SlowWireTest, ALongMessageThatIsNeverSentEndsAtTheDeadline) {
  if (ranks(3) < 3) GTEST_SKIP() << "needs 3 processes";
  double seconds = 0;
  try {
    launch(
        {.ranks = 3, .deadline = kDeadline},
        [&](const Communicator& comm) {
          const Communicator some = comm.split(comm.rank() == 1 ? 1 : 0, 0);
          const std::int64_t start = steady_now();
          try {
            if (comm.rank() == 0) pass(some, 1, 0, 8);  // from rank 2, which waits for rank 1
            if (comm.rank() == 1) pass(comm, 0, 1, 8 * kLong);
            if (comm.rank() == 2) pass(comm, 1, 2, 8);
          } catch (const Error&) {
            seconds = seconds_since(start);
            throw;
          }
        },
        [](std::unique_ptr<processes::Wire> wire) { return wire; });
    ADD_FAILURE() << "rank 0 has sent nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
  }
  EXPECT_LT(seconds, kDeadline + 2.0);
}

}  // namespace slow_wire_test
}  // namespace ringspan::comm
