// SPDX-License-Identifier: Apache-2.0
#include "comm/all_to_all.hpp"

#include <utility>
#include <vector>

#include "tests/comm/all_to_all_slices.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace all_to_all_test {

using namespace test;

struct Case {
  int ranks;
  int ranks_per_node;
  AllToAllAlgorithm algorithm;
  MessageCosts costs = {};  // they decide the number of stages: as many as can be
};

/// In one stage, for its messages are what costs; in between; and joined, for posts cost.
constexpr MessageCosts kOneStage = {{}, {0, 1, 0}, 0};
constexpr MessageCosts kJoined = {{}, {}, 0, 1};
constexpr MessageCosts kFewStages = {{0, 0, 1}, {0, 30, 1}, 0};

std::string test_name(const testing::TestParamInfo<Case>& info) {
  const bool direct = info.param.algorithm == AllToAllAlgorithm::direct;
  const double message = info.param.costs.intra_node.per_message;
  return concat(info.param.ranks, "ranks_", info.param.ranks_per_node, "per_node_",
                direct                               ? "direct"
                : info.param.costs.per_operation > 0 ? "hierarchical_joined"
                : message == 0                       ? "hierarchical"
                : message == 1                       ? "hierarchical_one_stage"
                                                     : "hierarchical_few_stages");
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const int ranks : {1, 2, 3, 4, 5, 7}) {
    result.push_back({ranks, ranks, AllToAllAlgorithm::direct});
    for (const int per_node : {1, 2, 3, 7}) {  // 5 by 2, 7 by 3 and so on: nodes of unequal size
      if (per_node > ranks) continue;
      result.push_back({ranks, per_node, AllToAllAlgorithm::hierarchical});
      if (per_node > 1 && ranks > 2 * per_node) {  // three nodes, and so a choice of stages
        result.push_back({ranks, per_node, AllToAllAlgorithm::hierarchical, kOneStage});
        result.push_back({ranks, per_node, AllToAllAlgorithm::hierarchical, kFewStages});
        result.push_back({ranks, per_node, AllToAllAlgorithm::hierarchical, kJoined});
      }
    }
  }
  return result;
}

class AllToAllTest : public testing::TestWithParam<Case> {
 protected:
  void run(const RankFunction& body) const {
    launch({.ranks = GetParam().ranks,
            .ranks_per_node = GetParam().ranks_per_node,
            .deadline = 20,
            .debug = all_checks(11)},
           [&](const Communicator& comm) { body(comm.knowing(GetParam().costs)); });
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, AllToAllTest, testing::ValuesIn(cases()), test_name);

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
class Promised {
 public:
  Promised(const Communicator& comm, const AllToAllChoice& choice, SizeFunction bytes)
      : comm_(comm), bytes_(bytes) {
    const int rank = comm.rank(), size = comm.size();
    for (int peer = 0; peer < size; ++peer) {
      const bool apart = node(peer) != node(rank);
      if (peer != rank && (choice.stages == 0 || !apart)) count(bytes(rank, peer), apart);
    }
    if (choice.stages == 0) return;
    const int nodes = node(size - 1) + 1;
    for (int n = 0; n < nodes; ++n) {  // to each other node at once
      std::int64_t message = 0;
      for (int peer : ranks_of(n)) message += bytes(rank, peer);
      if (n != node(rank)) count(message, true);
    }
    for (int stage = 0, distance = 1; stage < choice.stages; ++stage) {
      const int last =
          distance + (nodes - 1) / choice.stages + (stage < (nodes - 1) % choice.stages);
      for (int peer : ranks_of(node(rank))) {
        if (peer != rank) count(passed_on(peer, distance, last, nodes), false);
      }
      distance = last;
    }
  }

  Traffic traffic;

 private:
  void count(std::int64_t message, bool crosses) {
    traffic.messages_sent += message > 0;
    traffic.bytes_sent += message;
    traffic.inter_node_bytes_sent += crosses ? message : 0;
  }

  int node(int rank) const { return comm_.place(rank).node; }

  std::vector<int> ranks_of(int node) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < comm_.size(); ++rank) {
      if (comm_.place(rank).node == node) ranks.push_back(rank);
    }
    return ranks;
  }

  /// What this rank has for `peer` from nodes at these distances.
  std::int64_t passed_on(int peer, int first, int last, int nodes) const {
    const std::vector<int> here = ranks_of(node(peer));
    std::int64_t bytes = 0;
    for (int distance = first; distance < last; ++distance) {
      const std::vector<int> sources = ranks_of((node(peer) + nodes - distance) % nodes);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        if (here[i % here.size()] == comm_.rank()) bytes += bytes_(sources[i], peer);
      }
    }
    return bytes;
  }

  const Communicator& comm_;
  SizeFunction bytes_;
};

TEST_P(AllToAllTest, SendsExactlyWhatItsDescriptionSays) {
  run([&](const Communicator& comm) {
    for (const SizeFunction bytes : {equal_sizes, uneven_sizes, one_sender}) {
      const Slices slices(comm, bytes);
      AllToAll exchange(comm, slices.send, slices.recv, GetParam().algorithm);
      const Traffic before = comm.traffic();
      exchange.start();
      exchange.finish();
      const Traffic after = comm.traffic(),
                    wanted = Promised(comm, exchange.choice(), bytes).traffic;
      EXPECT_EQ(after.messages_sent - before.messages_sent, wanted.messages_sent);
      EXPECT_EQ(after.bytes_sent - before.bytes_sent, wanted.bytes_sent);
      EXPECT_EQ(after.inter_node_bytes_sent - before.inter_node_bytes_sent,
                wanted.inter_node_bytes_sent);
    }
  });
}

TEST(HierarchicalAllToAllTest, TakesAsManyStagesAsPay) {
  launch({.ranks = 7, .ranks_per_node = 2}, [](const Communicator& comm) {
    const Slices slices(comm, equal_sizes);
    const auto taken = [&](const Communicator& knowing) {
      const AllToAll exchange(knowing, slices.send, slices.recv, AllToAllAlgorithm::hierarchical);
      return std::pair(exchange.choice().stages, exchange.choice().joined);
    };
    EXPECT_EQ(taken(comm), std::pair(3, false));
    EXPECT_EQ(taken(comm.knowing(kFewStages)), std::pair(2, false));
    EXPECT_EQ(taken(comm.knowing(kOneStage)), std::pair(1, false));
    EXPECT_EQ(taken(comm.knowing(kJoined)), std::pair(3, true));
  });
}

TEST(HierarchicalAllToAllTest, SendsOneMessagePerNodeAcrossTheNetwork) {
  // Three nodes of two: what the closed form in the header gives for N = 3, L = 2, s = 24.
  launch({.ranks = 6, .ranks_per_node = 2}, [](const Communicator& comm) {
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

}  // namespace all_to_all_test
}  // namespace ringspan::comm
