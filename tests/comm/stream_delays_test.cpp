// SPDX-License-Identifier: Apache-2.0
// Whatever is queued on any stream begins late, by other times on each: nothing may be read before
// what it waits for, or written while it is read. On the emulated driver and NCCL.
#include <string>
#include <vector>

#include "comm/all_to_all.hpp"
#include "comm/collectives.hpp"
#include "comm/ring_exchange.hpp"
#include "tests/comm/streams_failure.hpp"

namespace ringspan::comm {
namespace {

using test::queue_kernel;

constexpr int kCount = 96;                  // values of a block
constexpr std::int64_t kSize = 4 * kCount;  // bytes

float* floats(const Slice& slice) { return reinterpret_cast<float*>(slice.data()); }

/// A block and what is derived from it travel around a ring, as values and their sums do; what
/// comes of all is exchanged by parts. [rank][value]
std::vector<std::vector<float>> results(const char* transport, int ranks) {
  std::vector<std::vector<float>> all(ranks, std::vector<float>(kCount));
  launch(transport, {.ranks = ranks, .deadline = 20}, [&](const Communicator& comm) {
    const Slice sum = whole(comm.device().allocate(kSize)),
                derived = whole(comm.device().allocate(kSize)),
                visiting = whole(comm.device().allocate(kSize)),
                parts = whole(comm.device().allocate(kSize));
    RingExchange ring(comm, kSize);
    queue_kernel(comm, [to = floats(whole(ring.begin())), of = floats(sum), rank = comm.rank()] {
      for (int i = 0; i < kCount; ++i) {
        to[i] = static_cast<float>(1 + (7 * rank + 3 * i) % 11) / 7;
        of[i] = 0;
      }
    });
    for (int hop = 0; hop < comm.size(); ++hop) {
      ring.start(kSize, kSize);
      queue_kernel(comm, [from = floats(whole(ring.block())), to = floats(derived)] {
        for (int i = 0; i < kCount; ++i) to[i] = 1 / from[kCount - 1 - i];
      });
      test::pass_on(comm, derived, visiting).wait();
      comm.device().reduce(sum, visiting, Element::f32, Reduction::sum);
      ring.finish();
      comm.device().reduce(sum, slice(ring.block(), 0, kSize), Element::f32, Reduction::sum);
    }
    all_to_all(comm, sum, parts);
    queue_kernel(comm, [&, from = floats(parts)] { all[comm.rank()].assign(from, from + kCount); });
    comm.device().synchronize(comm.deadline());
  });
  return all;
}

class StreamDelaysTest : public testing::TestWithParam<const char*> {
 protected:
  ~StreamDelaysTest() override { emulation_fail("streamDelay", 0, 0, 0); }
};

INSTANTIATE_TEST_SUITE_P(Transports, StreamDelaysTest, testing::Values("nccl", "cuda_ipc"),
                         [](const auto& transport) { return std::string(transport.param); });

TEST_P(StreamDelaysTest, ChangeNoBit) {
  for (const int ranks : {2, 3, 4}) {
    const auto expected = results(GetParam(), ranks);
    EXPECT_GT(expected[0][0], 0);
    for (const int longest : {100, 500, 2000}) {  // microseconds
      emulation_fail("streamDelay", 0, 1 << 30, longest);
      EXPECT_EQ(results(GetParam(), ranks), expected) << ranks << " ranks, " << longest << " us";
      emulation_fail("streamDelay", 0, 0, 0);
    }
  }
}

}  // namespace
}  // namespace ringspan::comm
