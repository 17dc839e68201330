// SPDX-License-Identifier: Apache-2.0
// Where a network ends: the longest message that it takes, and its last tag. Both are made small.
#include <algorithm>
#include <set>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/processes/parts.hpp"
#include "tests/comm/wire_under_test.hpp"

namespace ringspan::comm {
namespace wire_limits_test {

using processes::Cut;
using processes::cut_of;

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
constexpr std::int64_t kSmall = 1 << 16;     // the most that a narrow wire takes at once
constexpr std::int64_t kWhole = kSmall / 2;  // the most that goes in one part there
constexpr std::int64_t kMost = 8 * kSmall;   // the most that goes at all there

std::vector<std::int64_t> part_sizes(std::int64_t bytes, std::int64_t largest) {
  std::vector<std::int64_t> sizes;
  const Cut cut = cut_of(bytes, largest);
  for (std::int64_t part = 0; part < cut.parts; ++part)
    sizes.push_back(std::clamp<std::int64_t>(bytes - part * cut.bytes_each, 0, cut.bytes_each));
  return sizes;
}

/// Where the parts of a narrow wire change, and beside it.
std::vector<std::int64_t> edges() {
  std::set<std::int64_t> sizes{0, 1, kWhole - 1, kWhole, kMost};
  for (std::int64_t count = 2; count <= 8; ++count) {
    const std::int64_t part = kWhole + 4096 * count;
    for (const std::int64_t parts : {std::int64_t{1}, count - 1, count})
      for (const std::int64_t beside : {-1, 0, 1})
        if (parts * part + beside <= kMost) sizes.insert(parts * part + beside);
  }
  return {sizes.begin(), sizes.end()};
}

TEST(CutTest, MakeUpTheMessageAndCanBeCountedInAnInt) {
  for (const std::int64_t edge : {kGibibyte / 2, kGibibyte, 2 * kGibibyte, 4 * kGibibyte,
                                  std::int64_t{1} << 40, std::int64_t{1} << 47}) {
    for (const std::int64_t bytes : {edge - 1, edge, std::min(edge + 1, std::int64_t{1} << 47)}) {
      const Cut cut = cut_of(bytes, kGibibyte);
      EXPECT_LE(cut.bytes_each, kGibibyte) << bytes;
      EXPECT_GE(cut.parts * cut.bytes_each, bytes);
      EXPECT_LE((cut.parts - 2) * cut.bytes_each, bytes) << "more than one part is empty";
    }
  }
}

TEST(CutTest, ShowThatTwoSizesDiffer) {
  const std::vector<std::int64_t> sizes = edges();
  ASSERT_GT(sizes.size(), 50);
  for (const std::int64_t sent : sizes) {
    for (const std::int64_t expected : sizes) {
      const auto a = part_sizes(sent, kSmall), b = part_sizes(expected, kSmall);
      const bool alike = std::equal(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin());
      EXPECT_EQ(alike, sent == expected) << sent << " bytes where " << expected << " are expected";
    }
  }
}

class NarrowWire final : public test::ForwardingWire {
 public:
  NarrowWire(std::unique_ptr<Wire> wire, std::int64_t tags)
      : ForwardingWire(std::move(wire)), tags_(tags) {}

  std::int64_t tags() const override { return tags_; }
  std::int64_t largest_message() const override { return kSmall; }
  std::unique_ptr<processes::Transfer> send(int to, std::int64_t tag,
                                            std::span<const std::byte> bytes) override {
    EXPECT_LT(tag, tags_);
    EXPECT_LE(std::ssize(bytes), kSmall);
    return ForwardingWire::send(to, tag, bytes);
  }

 private:
  const std::int64_t tags_;
};

class WireLimitsTest : public test::WireTest {
 protected:
  static void launch(const LaunchOptions& options, std::int64_t tags, const RankFunction& body) {
    WireTest::launch(options, body, [tags](std::unique_ptr<processes::Wire> wire) {
      return std::make_unique<NarrowWire>(std::move(wire), tags);
    });
  }
};

/// Byte `index` of what a rank sends.
std::byte value(int sender, std::int64_t index) {
  return static_cast<std::byte>(index * 31 + index / 256 * 3 + index / 65536 * 5 + sender);
}

/// Passes `bytes` in so many rows around a ring, from rows that are not contiguous to one that is.
void expect_arrival(const Communicator& comm, std::int64_t bytes, std::int64_t rows) {
  const std::int64_t row = bytes / rows, stride = row + 8;
  const Slice out{comm.device().allocate(rows * stride), 0, rows, row, stride};
  const Slice in = whole(comm.device().allocate(rows * row));
  for (std::int64_t r = 0, i = 0; r < rows; ++r)
    for (std::byte *byte = out.data() + r * stride, *end = byte + row; byte < end;)
      *byte++ = value(comm.rank(), i++);
  Send sends[] = {{comm.next(), out}};
  Recv recvs[] = {{comm.prev(), in}};
  comm.post("pass_on", sends, recvs).wait();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows * row; ++i) wrong += in.data()[i] != value(comm.prev(), i);
  EXPECT_EQ(wrong, 0) << bytes << " bytes in " << rows << " rows";
}

TEST_F(WireLimitsTest, LongerMessagesArriveInParts) {
  for (const bool ledger : {false, true}) {
    LaunchOptions options{.ranks = ranks(3), .deadline = 20};
    options.debug.ledger = ledger;
    launch(options, 10, [](const Communicator& comm) {
      for (const std::int64_t bytes : {kWhole, kWhole + 1, kWhole + 8192, kWhole + 8193,
                                       2 * kWhole + 16384, 2 * kWhole + 16385, kMost})
        for (const std::int64_t rows : {1, 3}) expect_arrival(comm, bytes, rows);
    });
  }
}

TEST_F(WireLimitsTest, AWrongSizeIsAnErrorInAnyNumberOfParts) {
  if (test::process().size < 2) GTEST_SKIP() << "2 ranks, one process";
  const std::pair<std::int64_t, std::int64_t> sizes[] = {
      {kWhole, kWhole + 8192},      {kWhole + 8192, kWhole},     {kWhole + 8192, kWhole + 8193},
      {kWhole + 8193, 3 * kWhole},  {3 * kWhole, kWhole + 8193}, {3 * kWhole, 3 * kWhole + 1},
      {3 * kWhole + 1, 3 * kWhole}, {kMost, kMost - kWhole}};
  for (const auto& [sent, expected] : sizes) {
    const auto body = [sent = sent, expected = expected](const Communicator& comm) {
      const Buffer roomy = comm.device().allocate(kMost);  // Open MPI writes what does not fit
      Send sends[] = {{1, slice(roomy, 0, sent)}};
      Recv recvs[] = {{0, slice(roomy, 0, expected)}};
      if (comm.rank() == 0) comm.post("copy", sends, {}).wait();
      if (comm.rank() == 1) comm.post("copy", {}, recvs).wait();
    };
    try {
      launch({.ranks = 2, .deadline = 20}, 10, body);
      ADD_FAILURE() << sent << " bytes where " << expected << " are expected";
    } catch (const Error& error) {
      EXPECT_EQ(error.where().peer, 0) << error.what();
      EXPECT_NE(std::string(error.what()).find("rank 0 sends "), std::string::npos) << error.what();
    }
  }
}

/// What a group of all is refused with; empty if it is not.
std::string refused_group(const Communicator& comm) {
  try {
    barrier(comm.split(0, 0));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::not_available) return error.what();
    throw;
  }
  return "";
}

TEST_F(WireLimitsTest, GroupsBeyondTheLastTagAreRefusedByAllRanksWhichStayUsable) {
  launch({.ranks = ranks(4), .deadline = 20}, 4, [](const Communicator& world) {
    const Communicator half = world.split(world.rank() % 2, 0);
    if (world.rank() % 2 == 0) barrier(half.split(0, 0));  // the others have a tag more
    EXPECT_EQ(refused_group(world), "");
    for (int attempt = 0; attempt < 2; ++attempt)
      EXPECT_EQ(refused_group(world),
                "group: this launch has used up the 4 groups that its transport can tell apart; "
                "groups are made once and kept");
    EXPECT_EQ(all_reduce(half, std::int64_t{1}, Reduction::sum), half.size());
    EXPECT_EQ(all_reduce(world, std::int64_t{1}, Reduction::sum), world.size());
  });
}

#ifdef RINGSPAN_MPI
TEST_F(WireLimitsTest, LaunchesBeyondTheLastTagOfMpiAreRefusedByAllProcesses) {
  if (test::transport() != "mpi") GTEST_SKIP() << "other networks begin anew at every launch";
  const LaunchOptions options{.ranks = ranks(4), .deadline = 20};
  auto& session = mpi::Session::instance(options.deadline);
  std::int64_t tags = 0;  // that earlier launches have used
  for (const std::int64_t used :
       processes::all_gather(session.bootstrap(), session.first_unused_tag(), options.deadline))
    tags = std::max(tags, used);
  tags += 4;  // for notices, and messages of three groups
  const auto launch = [&] {
    processes::launch(
        options, [](const Communicator& world) { expect_arrival(world, 8, 1); },
        session.bootstrap(),
        [&](const Bootstrap& bootstrap, double deadline) {
          return mpi::make_mpi_wire(session, tags, bootstrap, deadline);
        });
  };
  launch();
  launch();
  try {
    launch();
    ADD_FAILURE() << "no tags are left";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_available);
    EXPECT_EQ(error.what(), concat("mpi: this process's launches have used up the ", tags,
                                   " tags of MPI; start a new process"));
  }
}
#endif

}  // namespace wire_limits_test
}  // namespace ringspan::comm
