// SPDX-License-Identifier: Apache-2.0
#include "comm/all_to_all.hpp"

#include "tests/comm/all_to_all_slices.hpp"

namespace ringspan::comm {
namespace {

using namespace test;

struct Case {
  int ranks;
  int ranks_per_node;
  AllToAllAlgorithm algorithm;
};

std::string test_name(const testing::TestParamInfo<Case>& info) {
  const bool direct = info.param.algorithm == AllToAllAlgorithm::direct;
  return concat(info.param.ranks, "ranks_", info.param.ranks_per_node, "per_node_",
                direct ? "direct" : "hierarchical");
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const int ranks : {1, 2, 3, 4, 5, 7}) {
    result.push_back({ranks, ranks, AllToAllAlgorithm::direct});
    for (const int per_node : {1, 2, 3, 7}) {  // 5 by 2, 7 by 3 and so on: nodes of unequal size
      if (per_node <= ranks) result.push_back({ranks, per_node, AllToAllAlgorithm::hierarchical});
    }
  }
  return result;
}

class AllToAllTest : public testing::TestWithParam<Case> {
 protected:
  void run(const RankFunction& body) const {
    launch("threads",
           {.ranks = GetParam().ranks,
            .ranks_per_node = GetParam().ranks_per_node,
            .deadline = 20,
            .debug = all_checks(11)},
           body);
  }
};

INSTANTIATE_TEST_SUITE_P(Threads, AllToAllTest, testing::ValuesIn(cases()), test_name);

TEST_P(AllToAllTest, DeliversEqualSlices) {
  run([&](const Communicator& comm) { check_exchanges(comm, GetParam().algorithm, equal_sizes); });
}

TEST_P(AllToAllTest, DeliversUnevenAndEmptySlices) {
  run([&](const Communicator& comm) { check_exchanges(comm, GetParam().algorithm, uneven_sizes); });
}

TEST_P(AllToAllTest, WorksWhereOneRankSendsAndTheOthersOnlyReceive) {
  run([&](const Communicator& comm) { check_exchanges(comm, GetParam().algorithm, one_sender); });
}

TEST_P(AllToAllTest, WorksInGroupsWhoseOrderIsNotThatOfTheNodes) {
  run([&](const Communicator& comm) {
    check_exchanges(comm.split(0, comm.rank() % 2), GetParam().algorithm, uneven_sizes);
    check_exchanges(comm.split(comm.rank() % 2, -comm.rank()), GetParam().algorithm, uneven_sizes);
  });
}

TEST_P(AllToAllTest, IsUndoneByTheReverseExchange) {
  run([&](const Communicator& comm) {
    const Slices there(comm, uneven_sizes), back(comm, uneven_sizes);
    for (int peer = 0; peer < comm.size(); ++peer) {
      write_pattern(there.send[peer], comm.rank(), peer, 0);
    }
    all_to_all_v(comm, there.send, there.recv, GetParam().algorithm);
    all_to_all_v(comm, there.recv, back.send, GetParam().algorithm);
    for (int peer = 0; peer < comm.size(); ++peer) {
      EXPECT_TRUE(has_pattern(back.send[peer], comm.rank(), peer, 0));
    }
  });
}

TEST_P(AllToAllTest, CutsOneSliceIntoEqualChunks) {
  run([&](const Communicator& comm) {
    const int size = comm.size(), rank = comm.rank();
    const Slice run_of_bytes = whole(comm.device().allocate(size * 10));
    Slice rows = in_rows(comm.device(), size * 10, size * 5);  // of two bytes
    for (int peer = 0; peer < size; ++peer) {
      write_pattern(slice(run_of_bytes.buffer, peer * 10, 10), rank, peer, 0);
    }
    all_to_all(comm, run_of_bytes, rows, GetParam().algorithm);
    Slice chunk = rows;
    chunk.rows = 5;
    for (int peer = 0; peer < size; ++peer, chunk.offset += 5 * rows.stride) {
      EXPECT_TRUE(has_pattern(chunk, peer, rank, 0));
    }
  });
}

/// What the head of AllToAll promises, counted pair by pair.
Traffic promised(const Communicator& comm, AllToAllAlgorithm algorithm, SizeFunction bytes) {
  const int rank = comm.rank();
  const auto node = [&](int r) { return comm.place(r).node; };
  const auto index = [&](int r) {  // within its node
    int before = 0;
    for (int other = 0; other < r; ++other) before += node(other) == node(r);
    return before;
  };
  const auto ranks_of = [&](int n) {
    int count = 0;
    for (int r = 0; r < comm.size(); ++r) count += node(r) == n;
    return count;
  };
  Traffic traffic;
  const auto count = [&](std::int64_t message, bool crosses) {
    traffic.messages_sent += message > 0;
    traffic.bytes_sent += message;
    traffic.inter_node_bytes_sent += crosses ? message : 0;
  };
  if (algorithm == AllToAllAlgorithm::direct) {
    for (int peer = 0; peer < comm.size(); ++peer) {
      if (peer != rank) count(bytes(rank, peer), node(peer) != node(rank));
    }
    return traffic;
  }
  for (int n = 0; n <= node(comm.size() - 1); ++n) {  // to each other node at once
    std::int64_t message = 0;
    for (int peer = 0; peer < comm.size(); ++peer)
      message += node(peer) == n ? bytes(rank, peer) : 0;
    if (n != node(rank)) count(message, true);
  }
  for (int source = 0; source < comm.size(); ++source) {  // inside: own data, and what passes here
    const bool here = node(source) == node(rank);
    const bool mine = here ? source == rank : index(source) % ranks_of(node(rank)) == index(rank);
    for (int peer = 0; mine && peer < comm.size(); ++peer) {
      if (peer != rank && node(peer) == node(rank)) count(bytes(source, peer), false);
    }
  }
  return traffic;
}

TEST_P(AllToAllTest, SendsExactlyWhatItsDescriptionSays) {
  run([&](const Communicator& comm) {
    for (const SizeFunction bytes : {equal_sizes, uneven_sizes, one_sender}) {
      const Slices slices(comm, bytes);
      AllToAll exchange(comm, slices.send, slices.recv, GetParam().algorithm);
      const Traffic before = comm.traffic();
      exchange.start();
      exchange.finish();
      const Traffic after = comm.traffic(), wanted = promised(comm, GetParam().algorithm, bytes);
      EXPECT_EQ(after.messages_sent - before.messages_sent, wanted.messages_sent);
      EXPECT_EQ(after.bytes_sent - before.bytes_sent, wanted.bytes_sent);
      EXPECT_EQ(after.inter_node_bytes_sent - before.inter_node_bytes_sent,
                wanted.inter_node_bytes_sent);
    }
  });
}

TEST(HierarchicalAllToAllTest, SendsOneMessagePerNodeAcrossTheNetwork) {
  // Three nodes of two: what the closed form in the header gives for N = 3, L = 2, s = 24.
  launch("threads", {.ranks = 6, .ranks_per_node = 2}, [](const Communicator& comm) {
    for (const auto algorithm : {AllToAllAlgorithm::direct, AllToAllAlgorithm::hierarchical}) {
      const Slices slices(comm, equal_sizes);
      AllToAll exchange(comm, slices.send, slices.recv, algorithm);
      const Traffic before = comm.traffic();
      exchange.start();
      exchange.finish();
      const Traffic after = comm.traffic();
      EXPECT_EQ(after.inter_node_bytes_sent - before.inter_node_bytes_sent, 4 * 24);
      EXPECT_EQ(after.messages_sent - before.messages_sent, 5);  // 4 + 1, or 2 + 3
      const bool direct = algorithm == AllToAllAlgorithm::direct;
      EXPECT_EQ(after.bytes_sent - before.bytes_sent, direct ? 5 * 24 : 4 * 24 + 3 * 24);
    }
  });
}

}  // namespace
}  // namespace ringspan::comm
