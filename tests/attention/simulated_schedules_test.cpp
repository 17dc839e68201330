// SPDX-License-Identifier: Apache-2.0
// Schedules run in virtual time as they are: the same traffic and the same memory as on threads.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "comm/error.hpp"
#include "tests/attention/schedule_run.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::attention {
namespace {

/// What one rank did.
struct Use {
  std::int64_t bytes, inter_node_bytes, messages, held, peak;
  bool operator==(const Use&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Use& use) {
  return out << use.bytes << " bytes, " << use.inter_node_bytes << " of them between nodes, in "
             << use.messages << " messages; " << use.held << " held, at most " << use.peak;
}

/// One rank's tensors, with whatever is in them.
struct Tensors {
  Tensors(comm::Device& device, const Problem& problem, std::int64_t tokens) {
    const Shape& s = problem.shape;
    const auto make = [&](DType dtype, std::int64_t heads, std::int64_t dim) {
      return Tensor(device, dtype, s.batch, tokens, heads, dim);
    };
    q = make(s.dtype, s.heads, s.head_dim), dq = make(s.dtype, s.heads, s.head_dim);
    k = make(s.dtype, s.kv_heads, s.head_dim), dk = make(s.dtype, s.kv_heads, s.head_dim);
    v = make(s.dtype, s.kv_heads, s.value_dim), dv = make(s.dtype, s.kv_heads, s.value_dim);
    out = make(s.dtype, s.heads, s.value_dim), d_out = make(s.dtype, s.heads, s.value_dim);
    lse = make(DType::f32, s.heads, 1);
  }
  Tensor q, k, v, out, lse, d_out, dq, dk, dv;
};

Use run(const comm::Communicator& comm, const NamedSchedule& named, const Problem& problem) {
  comm::Device& device = comm.device();
  const std::unique_ptr<Kernels> kernels = make_kernels("null", device);
  const auto schedule = make_schedule(named.name, comm, *kernels, named.options);
  const Tensors t(device, problem, tokens(schedule->shard(problem.sequence)));
  const std::unique_ptr<Plan> plan = schedule->plan(problem);
  const std::unique_ptr<Saved> saved = plan->make_saved();
  device.reset_peak();
  const comm::Traffic before = comm.traffic();
  plan->forward({t.q, t.k, t.v}, {t.out, t.lse}, saved.get());
  plan->backward({t.q, t.k, t.v}, {t.out, t.lse}, *saved, t.d_out, {t.dq, t.dk, t.dv});
  device.synchronize(comm.deadline());
  const comm::Traffic after = comm.traffic();
  return {after.bytes_sent - before.bytes_sent,
          after.inter_node_bytes_sent - before.inter_node_bytes_sent,
          after.messages_sent - before.messages_sent, device.memory().current,
          device.memory().peak};
}

/// [schedule][rank]
std::vector<std::vector<Use>> uses(std::string_view transport,
                                   const std::vector<NamedSchedule>& schedules,
                                   const Problem& problem, int ranks) {
  std::vector<std::vector<Use>> result(schedules.size(), std::vector<Use>(ranks));
  comm::LaunchOptions options{.ranks = ranks, .ranks_per_node = 4, .deadline = 20};
  options.cluster = std::make_shared<const comm::Cluster>(comm::test::plain_cluster(2, 4));
  comm::launch(transport, options, [&](const comm::Communicator& comm) {
    for (std::size_t i = 0; i < schedules.size(); ++i)
      result[i][comm.rank()] = run(comm, schedules[i], problem);
  });
  return result;
}

TEST(SimulatedSchedulesTest, SendAndHoldWhatTheyDoOnThreads) {
  for (const char* mask : {"full", "causal", "window:40", "documents+causal"}) {
    for (const std::int64_t length : {29, 1000}) {
      for (const int kv_heads : {1, 2, 8}) {
        for (const int ranks : {1, 3, 8}) {
          const Problem problem = make_problem(mask, length,
                                               {.batch = 1,
                                                .heads = 8,
                                                .kv_heads = kv_heads,
                                                .head_dim = 32,
                                                .value_dim = 16,
                                                .dtype = DType::bf16});
          const std::vector<NamedSchedule> schedules =
              length == 29 ? every_schedule(ranks, problem.mask) : all_schedules(ranks);
          const auto real = uses("threads", schedules, problem, ranks);
          const auto timed = uses("simulated", schedules, problem, ranks);
          for (std::size_t i = 0; i < schedules.size(); ++i)
            EXPECT_EQ(timed[i], real[i]) << describe(schedules[i]) << ", " << describe(problem);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ringspan::attention
