// SPDX-License-Identifier: Apache-2.0
#include "comm/probe.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "comm/all_to_all.hpp"
#include "comm/batch.hpp"
#include "comm/collectives.hpp"
#include "comm/middle.hpp"
#include "comm/nodes.hpp"

namespace ringspan::comm {
namespace {

constexpr TimedExchange kExchanges[] = {{1, 8},       {16, 16 * 8}, {1, 1 << 10}, {1, 1 << 13},
                                        {1, 1 << 16}, {8, 1 << 16}, {1, 1 << 19}, {8, 1 << 19}};
constexpr std::int64_t kLargest = 1 << 19;  // bytes
constexpr int kRounds = 5;                  // at least, of blocks of iterations or turns

constexpr std::int64_t kTrials[] = {128,      1 << 10,   4 << 10, 16 << 10,
                                    64 << 10, 256 << 10, 1 << 20, 4 << 20};
static_assert(std::size(kTrials) <= AllToAllTrials::kMost);
constexpr std::int64_t kMostSent = 64 << 20;  // bytes a rank sends in a trial
constexpr double kTurn = 2e-3;    // seconds; ten times what leaving a barrier differs by, over TCP
constexpr int kFewTurns = 7;      // at least
constexpr int kTurns = 15;        // before a choice counts as clear
constexpr double kNear = 0.05;    // a choice slower by less than this is none to avoid
constexpr double kSettled = 0.5;  // of Trial::doubt: nearly three standard errors

/// To whom this rank sends while all send, and from whom it receives: of several messages, those
/// at [i % size] the ones with index i. Empty: nobody.
struct Neighbours {
  std::vector<int> to, from;
};

Neighbours in_node(const Nodes& nodes, int rank) {
  const std::vector<int>& ranks = nodes.ranks(nodes.node(rank));
  const std::size_t index = nodes.index(rank), size = ranks.size();
  Neighbours all;
  for (std::size_t distance = 1; distance < size; ++distance) {
    all.to.push_back(ranks[(index + distance) % size]);
    all.from.push_back(ranks[(index + size - distance) % size]);
  }
  return all;
}

/// The rank of equal index on the next node first. Of nodes of unequal size as many ranks as the
/// smallest has.
Neighbours between_nodes(const Nodes& nodes, int rank) {
  const int node = nodes.node(rank), count = nodes.count(), index = nodes.index(rank);
  int size = nodes.largest();
  for (int i = 0; i < count; ++i) size = std::min(size, static_cast<int>(nodes.ranks(i).size()));
  Neighbours all;
  if (index >= size) return all;
  for (int distance = 1; distance < count; ++distance) {
    for (int shift = 0; shift < size; ++shift) {
      all.to.push_back(nodes.ranks((node + distance) % count)[(index + shift) % size]);
      all.from.push_back(
          nodes.ranks((node + count - distance) % count)[(index + size - shift) % size]);
    }
  }
  return all;
}

/// Both all-to-alls of one size, which take turns.
struct Trial {
  Trial(const Communicator& comm, std::int64_t bytes, const Buffer& sent, const Buffer& received)
      : bytes(bytes) {
    std::vector<Slice> send, receive;
    for (int rank = 0; rank < comm.size(); ++rank) {
      send.push_back(slice(sent, rank * bytes, bytes));
      receive.push_back(slice(received, rank * bytes, bytes));
    }
    for (auto algorithm : {AllToAllAlgorithm::direct, AllToAllAlgorithm::hierarchical})
      both.emplace_back(comm, send, receive, algorithm);
  }

  void run(int which) {
    both[which].start();
    both[which].finish();
  }

  AllToAllTrial result() const {
    return {static_cast<double>(bytes), Middle(samples[0]).mean, Middle(samples[1]).mean};
  }

  /// The error of the ratio of both, about, over the one that would make a choice by it cost more
  /// than kNear; of few turns, infinite.
  double doubt() const {
    const std::size_t turns = samples[0].size();
    if (turns < kTurns) return std::numeric_limits<double>::infinity();
    std::vector<double> ratios;
    for (std::size_t i = 0; i < turns; ++i) ratios.push_back(samples[1][i] / samples[0][i]);
    const double error = Middle(std::move(ratios)).width / std::sqrt(static_cast<double>(turns));
    const AllToAllTrial mean = result();
    return error / (kNear + std::abs(mean.hierarchical / mean.direct - 1));
  }

  bool settled() const { return doubt() < kSettled; }

  std::int64_t bytes;
  std::vector<AllToAll> both;
  int batch = 1;     // runs of a turn
  double spent = 0;  // seconds, in turns
  std::vector<double> samples[2];
};

/// Times what all ranks do together. Every figure is the maximum over ranks, so that all agree on
/// how to go on.
class Probe {
 public:
  explicit Probe(const Communicator& comm)
      : comm_(comm),
        sent_(comm.device().allocate(kLargest)),
        received_(comm.device().allocate(kLargest)) {}

  LinkCosts link(const Neighbours& neighbours, double seconds) {
    std::vector<TimedExchange> timed;
    std::vector<std::vector<double>> samples;
    const double block = seconds / (kRounds * std::size(kExchanges));
    double left = seconds;
    for (int round = 0; round < kRounds || left > 0; ++round) {
      for (std::size_t i = 0; i < std::size(kExchanges); ++i) {
        const auto exchange = [&] { this->exchange(neighbours, kExchanges[i]); };
        if (round == 0) {
          const double first = std::max(once(exchange), once(exchange));
          if (first > seconds / kRounds && i > 2) break;  // and so would all larger ones
          samples.emplace_back();
          timed.push_back(kExchanges[i]);
        }
        if (i >= samples.size()) break;
        samples[i].push_back(repeated(exchange, block, left));
      }
    }
    for (std::size_t i = 0; i < timed.size(); ++i) timed[i].seconds = median(samples[i]);
    return fit(timed);
  }

  double copy_per_byte(double seconds) {
    comm_.device().copy(whole(sent_), whole(received_));  // so that both really are in memory
    const auto copy = [&] {
      comm_.device().copy(whole(received_), whole(sent_));
      comm_.device().synchronize(comm_.deadline());
    };
    once(copy);
    std::vector<double> samples;
    for (double left = seconds; left > 0;) {
      samples.push_back(repeated(copy, seconds / kRounds, left));
    }
    return median(samples) / kLargest;
  }

  /// Both all-to-alls at rising sizes, at as many as there is time for: the largest may take half
  /// of what is left. All get kFewTurns turns, and equal shares of a quarter of the time, not in a
  /// row, for what is slow for a while would mislead. The rest is for sizes with less than kTurns,
  /// then for the one whose choice is most in doubt. `costs` decide the stages.
  AllToAllTrials trials(const MessageCosts& costs, const Nodes& nodes, double seconds) const {
    const Communicator comm = comm_.knowing(costs);
    std::vector<Trial> trials;
    const double share = seconds / 4 / std::size(kTrials);
    std::int64_t most_bytes = kTrials[0];
    for (const std::int64_t bytes : kTrials)
      if (bytes * comm.size() <= kMostSent) most_bytes = bytes;
    const Buffer sent = comm.device().allocate(most_bytes * comm.size());
    const Buffer received = comm.device().allocate(most_bytes * comm.size());
    for (const std::int64_t bytes : kTrials) {
      if (!trials.empty()) {
        const auto& [before, direct, hierarchical] = trials.back().result();
        const double run = std::max(direct, hierarchical) * bytes / before;  // or less
        if (2 * (2 + kFewTurns) * run > seconds / 2 || bytes > most_bytes) break;
      }
      Trial& trial = trials.emplace_back(comm, bytes, sent, received);
      seconds -= first_runs(trial);
      do {
        seconds -= turn(trial);
      } while (seconds > 0 && trial.samples[0].size() < kFewTurns);
    }
    for (int round = 1; round <= kRounds; ++round) {
      for (Trial& trial : trials)
        while (seconds > 0 && trial.spent < share * round / kRounds) seconds -= turn(trial);
    }
    while (seconds > 0) {
      const auto most =
          std::max_element(trials.begin(), trials.end(),
                           [](const Trial& a, const Trial& b) { return a.doubt() < b.doubt(); });
      if (most->settled()) break;
      seconds -= turn(*most);
    }
    AllToAllTrials result{nodes.count(), nodes.largest()};
    for (const Trial& trial : trials) result.list[result.count++] = trial.result();
    return result;
  }

 private:
  void exchange(const Neighbours& neighbours, const TimedExchange& wanted) {
    const std::int64_t bytes = wanted.bytes / wanted.messages;
    const std::size_t peers = neighbours.to.size();
    Batch batch;
    for (int i = 0; i < wanted.messages && peers > 0; ++i) {
      batch.send(neighbours.to[i % peers], slice(sent_, i * bytes, bytes));
      batch.receive(neighbours.from[i % peers], slice(received_, i * bytes, bytes));
    }
    std::move(batch).post(comm_, "probe").wait();
  }

  /// Two of each, the first of which also touches all memory. The seconds they took.
  double first_runs(Trial& trial) const {
    double seconds = 0, longest = 0;
    for (int which : {0, 1}) {
      const auto run = [&] { trial.run(which); };
      const double first = once(run), second = once(run);
      seconds += first + second;
      longest = std::max(longest, std::min(first, second));
    }
    trial.batch = static_cast<int>(std::clamp(kTurn / longest, 1.0, 1000.0));
    return seconds;
  }

  /// The seconds it took.
  double turn(Trial& trial) const {
    double seconds = 0;
    const int first = static_cast<int>(trial.samples[0].size() % 2);  // neither always profits
    for (int which : {first, 1 - first}) {
      const double taken = several([&] { trial.run(which); }, trial.batch);
      trial.samples[which].push_back(taken / trial.batch);
      seconds += taken;
    }
    trial.spent += seconds;
    return seconds;
  }

  template <typename Call>
  double once(const Call& call) const {
    return several(call, 1);
  }

  template <typename Call>
  double several(const Call& call, int iterations) const {
    barrier(comm_);
    const double start = comm_.device().now();
    for (int i = 0; i < iterations; ++i) call();
    comm_.device().synchronize(comm_.deadline());
    return all_reduce(comm_, comm_.device().now() - start, Reduction::max);
  }

  /// Seconds of one call among as many as `block` seconds hold; what it took goes off `left`.
  template <typename Call>
  double repeated(const Call& call, double block, double& left) const {
    const double one = std::max(once(call), 1e-9);
    left -= one;
    const int iterations = static_cast<int>(std::clamp(block / one, 1.0, 1000.0));
    if (iterations == 1) return one;
    const double taken = several(call, iterations);
    left -= taken;
    return taken / iterations;
  }

  const Communicator& comm_;
  const Buffer sent_, received_;
};

}  // namespace

MessageCosts probe(const Communicator& comm, double seconds) {
  RINGSPAN_REQUIRE(std::isfinite(seconds) && seconds > 0, "probe: ", seconds,
                   " seconds; they must be positive");
  const Nodes nodes(comm);
  Probe probe(comm);
  MessageCosts costs;
  const double links = std::min(0.4 * seconds, 1.0);  // which are known well enough by then
  costs.copy_per_byte = probe.copy_per_byte(links / 8);
  if (nodes.largest() > 1)
    costs.intra_node = probe.link(in_node(nodes, comm.rank()), links * 3 / 8);
  if (nodes.count() > 1)
    costs.inter_node = probe.link(between_nodes(nodes, comm.rank()), links / 2);
  if (nodes.largest() > 1 && nodes.count() > 1)
    costs.trials = probe.trials(costs, nodes, seconds - links);
  return costs;
}

}  // namespace ringspan::comm
