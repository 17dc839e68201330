// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives.hpp"

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "comm/reproducible_sum.hpp"
#include "comm/split_evenly.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace {

using test::has_pattern;
using test::launch;
using test::refusal;
using test::write_pattern;

class CollectivesTest : public testing::TestWithParam<int> {
 protected:
  /// In the group of all ranks, and in two that interleave; once with every check on.
  void run(const RankFunction& body) const {
    for (const DebugOptions& debug : {DebugOptions{}, test::all_checks(5)}) {
      launch({.ranks = GetParam(), .deadline = 20, .debug = debug}, [&](const Communicator& comm) {
        body(comm);
        body(comm.split(comm.rank() % 2, -comm.rank()));
      });
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, testing::Values(1, 2, 3, 4, 5, 7),
                         [](const auto& info) { return concat(info.param, "ranks"); });

std::int64_t messages_sent(const Communicator& comm, const std::function<void()>& operation) {
  const std::int64_t before = comm.traffic().messages_sent;
  operation();
  return comm.traffic().messages_sent - before;
}

/// The smallest k with 2^k >= size.
int rounds(int size) {
  int k = 0;
  while ((1 << k) < size) ++k;
  return k;
}

TEST_P(CollectivesTest, AllGatherCollectsUnevenAndEmptyParts) {
  run([](const Communicator& comm) {
    std::vector<Slice> parts;
    for (int rank = 0; rank < comm.size(); ++rank) {
      const std::int64_t bytes = rank % 3 == 1 ? 0 : 6 * rank + 2;
      const Buffer buffer = comm.device().allocate(3 * bytes + 1);
      parts.push_back({buffer, 1, 2, bytes / 2, bytes});  // two rows
    }
    write_pattern(parts[comm.rank()], comm.rank(), 0, 0);
    std::int64_t full_parts = 0;
    for (const Slice& part : parts) full_parts += part.bytes() > 0;
    full_parts -= parts[comm.next()].bytes() > 0;  // the only one that a rank does not send
    EXPECT_EQ(messages_sent(comm, [&] { all_gather(comm, parts); }), full_parts);
    for (int rank = 0; rank < comm.size(); ++rank) {
      EXPECT_TRUE(has_pattern(parts[rank], rank, 0, 0));
    }
  });
}

template <typename Value>
constexpr Element element_of() {
  if constexpr (std::is_same_v<Value, float>) return Element::f32;
  if constexpr (std::is_same_v<Value, double>) return Element::f64;
  return Element::i64;
}

/// Sums of these depend on the order of the additions.
template <typename Value>
Value input(int rank, std::int64_t index) {
  const std::int64_t n = (rank * 7919 + index * 104729) % 1009 - 500;
  return std::is_integral_v<Value> ? static_cast<Value>(n) : static_cast<Value>(n / 7.0);
}

template <typename Value>
Value combine(Value a, Value b, Reduction reduction) {
  if (reduction == Reduction::sum) return a + b;
  return reduction == Reduction::min ? std::min(a, b) : std::max(a, b);
}

/// Starting with `first` and going once round the ring: the order that a ring reduces in.
template <typename Value>
Value expected(int size, int first, std::int64_t index, Reduction reduction) {
  Value result = input<Value>(first % size, index);
  for (int i = 1; i < size; ++i) {
    result = combine(result, input<Value>((first + i) % size, index), reduction);
  }
  return result;
}

template <typename Value>
std::span<Value> values_of(const Slice& slice) {
  return {reinterpret_cast<Value*>(slice.data()), slice.bytes() / sizeof(Value)};
}

/// Runs `check(part sizes, reduction)` for every shape and reduction.
template <typename Check>
void for_all_shapes(const Communicator& comm, Check check) {
  for (const auto reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
    std::vector<std::int64_t> equal(comm.size(), 33), uneven, none(comm.size(), 0);
    for (int rank = 0; rank < comm.size(); ++rank) {
      uneven.push_back(rank % 3 == 2 ? 0 : rank * 10 + 1);
    }
    for (const auto& sizes : {equal, uneven, none}) check(sizes, reduction);
  }
}

template <typename Value>
void check_reduce_scatter(const Communicator& comm, const std::vector<std::int64_t>& sizes,
                          Reduction reduction) {
  std::vector<Slice> parts;
  std::int64_t index = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(whole(comm.device().allocate(size * sizeof(Value))));
    for (Value& value : values_of<Value>(parts.back())) value = input<Value>(comm.rank(), index++);
  }
  std::int64_t first = 0, full_parts = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank < comm.rank()) first += sizes[rank];
    full_parts += rank != comm.rank() && sizes[rank] > 0;
  }
  const std::int64_t messages =
      messages_sent(comm, [&] { reduce_scatter(comm, parts, element_of<Value>(), reduction); });
  EXPECT_EQ(messages, full_parts);
  for (const Value value : values_of<Value>(parts[comm.rank()])) {
    EXPECT_EQ(value, expected<Value>(comm.size(), comm.rank() + 1, first++, reduction));
  }
}

TEST_P(CollectivesTest, ReduceScatterLeavesEachRankItsPart) {
  run([](const Communicator& comm) {
    for_all_shapes(comm, [&](const std::vector<std::int64_t>& sizes, Reduction reduction) {
      check_reduce_scatter<float>(comm, sizes, reduction);
      check_reduce_scatter<double>(comm, sizes, reduction);
      check_reduce_scatter<std::int64_t>(comm, sizes, reduction);
    });
  });
}

TEST_P(CollectivesTest, ReduceScatterWithStagingAllocatesNothing) {
  run([](const Communicator& comm) {
    const std::vector<Slice> parts(comm.size(), whole(comm.device().allocate(80)));
    const Buffer staging = comm.device().allocate(80);
    comm.device().reset_peak();
    const std::int64_t before = comm.device().memory().current;
    reduce_scatter(comm, parts, Element::f64, Reduction::max, staging);
    EXPECT_EQ(comm.device().memory().peak, before);
    reduce_scatter(comm, parts, Element::f64, Reduction::max);
    EXPECT_EQ(comm.device().memory().peak, before + (comm.size() > 1 ? 80 : 0));
  });
}

template <typename Value>
void check_all_reduce(const Communicator& comm, std::int64_t count, Reduction reduction) {
  const std::int64_t width = sizeof(Value);
  const Slice data = slice(comm.device().allocate(count * width + 8), 8, count * width);
  std::int64_t index = 0;
  for (Value& value : values_of<Value>(data)) value = input<Value>(comm.rank(), index++);
  all_reduce(comm, data, element_of<Value>(), reduction);
  for (int rank = 0; rank < comm.size(); ++rank) {  // the same bits everywhere: one exact value
    const Part part = split_evenly(count, comm.size(), rank);
    for (std::int64_t i = part.first; i < part.first + part.count; ++i) {
      EXPECT_EQ(values_of<Value>(data)[i], expected<Value>(comm.size(), rank + 1, i, reduction));
    }
  }
}

TEST_P(CollectivesTest, AllReduceGivesEveryRankTheSameBits) {
  run([](const Communicator& comm) {
    for (const auto reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
      for (const std::int64_t count : {0, 1, 3, 100}) {
        check_all_reduce<float>(comm, count, reduction);
        check_all_reduce<double>(comm, count, reduction);
        check_all_reduce<std::int64_t>(comm, count, reduction);
      }
    }
  });
}

TEST_P(CollectivesTest, AllReduceOfAHostValueGivesEveryRankTheSameBits) {
  run([](const Communicator& comm) {
    const double mine = 1.0 / (3 + comm.rank());
    double sum = 0;
    for (int rank = 0; rank < comm.size(); ++rank) sum += 1.0 / (3 + rank);
    EXPECT_EQ(all_reduce(comm, mine, Reduction::sum), sum);
    EXPECT_EQ(all_reduce(comm, mine, Reduction::max), 1.0 / 3);
    EXPECT_EQ(all_reduce(comm, mine, Reduction::min), 1.0 / (2 + comm.size()));
    const std::int64_t large = (std::int64_t{1} << 60) + comm.rank();  // no double holds it
    EXPECT_EQ(all_reduce(comm, large, Reduction::min), std::int64_t{1} << 60);
    EXPECT_EQ(all_reduce(comm, large, Reduction::max), (std::int64_t{1} << 60) + comm.size() - 1);
    EXPECT_EQ(all_reduce(comm, std::int64_t{comm.rank()}, Reduction::sum),
              comm.size() * (comm.size() - 1) / 2);
  });
}

TEST_P(CollectivesTest, BroadcastReachesEveryRankFromEveryRoot) {
  run([](const Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      for (const std::int64_t bytes : {0, 1, 1000}) {
        const Slice data = slice(comm.device().allocate(bytes + 3), 3, bytes);
        if (comm.rank() == root) write_pattern(data, root, 0, 0);
        const std::int64_t messages = messages_sent(comm, [&] { broadcast(comm, data, root); });
        EXPECT_TRUE(has_pattern(data, root, 0, 0));
        EXPECT_LE(messages, rounds(comm.size()));
        const std::int64_t all = all_reduce(comm, messages, Reduction::sum);
        EXPECT_EQ(all, bytes > 0 ? comm.size() - 1 : 0);  // everyone is told once
      }
    }
  });
}

TEST_P(CollectivesTest, BarrierHoldsEveryoneUntilTheLastArrives) {
  const int ranks = GetParam();
  launch({.ranks = ranks, .debug = test::all_checks(9)}, [&](const Communicator& comm) {
    for (int round = 0; round < 10; ++round) {
      using Clock = std::chrono::steady_clock;  // one for all processes of a machine
      if (comm.rank() == round % ranks) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const auto arrived = Clock::now().time_since_epoch().count();
      EXPECT_EQ(messages_sent(comm, [&] { barrier(comm); }), rounds(ranks));
      const auto left = Clock::now().time_since_epoch().count();
      for (const auto others : all_gather_values(comm, arrived)) EXPECT_GE(left, others);
    }
  });
}

TEST_P(CollectivesTest, AllGatherValuesReturnsThemInRankOrder) {
  struct Record {
    int rank;
    char text[9];
  };
  run([](const Communicator& comm) {
    Record mine = {comm.rank(), "rank ?"};
    mine.text[5] = static_cast<char>('0' + comm.rank());
    std::vector<Record> all;
    const std::int64_t messages = messages_sent(comm, [&] { all = all_gather_values(comm, mine); });
    EXPECT_EQ(messages, rounds(comm.size()));
    ASSERT_EQ(static_cast<int>(all.size()), comm.size());
    for (int rank = 0; rank < comm.size(); ++rank) {
      EXPECT_EQ(all[rank].rank, rank);
      EXPECT_EQ(all[rank].text, concat("rank ", rank));
    }
  });
}

TEST_P(CollectivesTest, RefusesBadArgumentsAndLeavesTheCommunicatorUsable) {
  run([](const Communicator& comm) {
    const Slice eight = whole(comm.device().allocate(8));
    const std::vector<Slice> right(comm.size(), eight);
    std::vector<Slice> many(comm.size() + 1, eight);
    std::vector<Slice> outside = right, ragged = right, rows = right;
    outside.back().offset = 1;
    ragged.front().row_bytes = 6;
    rows.front() = {eight.buffer, 0, 2, 2, 4};
    EXPECT_NE(refusal([&] { all_gather(comm, many); }), "");
    EXPECT_NE(refusal([&] { all_gather(comm, outside); }), "");
    for (const auto* wrong : {&many, &outside, &ragged, &rows}) {
      EXPECT_NE(refusal([&] { reduce_scatter(comm, *wrong, Element::f32); }), "");
    }
    const Buffer small = comm.device().allocate(7);
    if (comm.size() > 1) {
      const auto call = [&] { reduce_scatter(comm, right, Element::f32, Reduction::sum, small); };
      EXPECT_NE(refusal(call), "");
    }
    EXPECT_NE(refusal([&] { all_reduce(comm, rows.front(), Element::f32); }), "");
    EXPECT_NE(refusal([&] { all_reduce(comm, slice(small, 0, 7), Element::f32); }), "");
    EXPECT_NE(refusal([&] { all_reduce(comm, slice(eight.buffer, 2, 4), Element::f32); }), "");
    EXPECT_NE(refusal([&] { all_reduce(comm, slice(small, 0, 8), Element::f32); }), "");
    const Slice sums = whole(comm.device().allocate(comm.size() * sizeof(ReproducibleSum)));
    for (const Reduction order : {Reduction::min, Reduction::max}) {
      const auto call = [&] { all_reduce(comm, sums, Element::reproducible, order); };
      EXPECT_EQ(messages_sent(comm, [&] { EXPECT_NE(refusal(call), ""); }), 0);
    }
    EXPECT_NE(refusal([&] { broadcast(comm, slice(small, 0, 8), 0); }), "");
    EXPECT_NE(refusal([&] { broadcast(comm, eight, -1); }), "");
    EXPECT_EQ(refusal([&] { broadcast(comm, eight, comm.size()); }),
              concat("broadcast: root ", comm.size(), " must be one of the ranks 0 to ",
                     comm.size() - 1));
    EXPECT_NE(refusal([&] { all_gather_bytes(comm, nullptr, -1); }), "");
    EXPECT_EQ(all_reduce(comm, std::int64_t{1}, Reduction::sum), comm.size());
  });
}

}  // namespace
}  // namespace ringspan::comm
