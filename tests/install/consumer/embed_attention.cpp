// SPDX-License-Identifier: Apache-2.0
// Zigzag ring attention over 4 ranks, forward and backward, from a program that owns its tensors.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <ringspan/attention/schedule.hpp>
#include <ringspan/comm/launch.hpp>
#include <vector>

namespace comm = ringspan::comm;
using namespace ringspan::attention;

namespace {

/// Values that do not depend on the token, so that attention must return v itself.
struct Local {
  std::vector<float> values;
  TensorView view;
  Local(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim, float value)
      : values(tokens * heads * head_dim, value),
        view(TensorView::packed(values.data(), DType::f32, 1, tokens, heads, head_dim)) {}
};

bool train_step(const comm::Communicator& world) {
  auto kernels = make_kernels("cpu", world.device());
  auto schedule = make_schedule("zigzag", world, *kernels);

  Problem problem;
  problem.shape = {.batch = 1, .heads = 4, .kv_heads = 2, .head_dim = 16, .value_dim = 16};
  problem.sequence.length = 1001;
  problem.mask = parse_mask("causal");
  auto plan = schedule->plan(problem);

  const std::int64_t mine = tokens(schedule->shard(problem.sequence));
  Local q(mine, 4, 16, 0.5f), k(mine, 2, 16, 0.25f), v(mine, 2, 16, 3.0f), out(mine, 4, 16, 0.0f);
  Local d_out(mine, 4, 16, 1.0f), dq(mine, 4, 16, 9.0f), dk(mine, 2, 16, 9.0f),
      dv(mine, 2, 16, 9.0f);

  auto saved = plan->make_saved();
  plan->forward({q.view, k.view, v.view}, {out.view}, saved.get());
  plan->backward({q.view, k.view, v.view}, {out.view}, *saved, d_out.view,
                 {dq.view, dk.view, dv.view});

  bool right = true;
  for (float x : out.values) right = right && std::abs(x - 3.0f) < 1e-5f;
  for (float x : dq.values) right = right && std::abs(x) < 1e-4f;
  return right;
}

}  // namespace

int main() {
  std::atomic<int> right{0};
  comm::LaunchOptions options;
  options.ranks = 4;
  comm::launch("threads", options, [&](const comm::Communicator& world) {
    if (train_step(world)) ++right;
  });
  std::printf("%d of 4 ranks have the right output\n", right.load());
  return right == 4 ? 0 : 1;
}
