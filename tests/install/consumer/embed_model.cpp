// SPDX-License-Identifier: Apache-2.0
// A small language model learns a pattern on four ranks: two share its layers, two its sequence.
#include <cstdio>
#include <ringspan/attention/schedule.hpp>
#include <ringspan/comm/launch.hpp>
#include <ringspan/model/mesh.hpp>
#include <ringspan/model/shard_batch.hpp>
#include <ringspan/model/trainer.hpp>
#include <vector>

namespace comm = ringspan::comm;
using namespace ringspan::attention;
using namespace ringspan::model;

namespace {

double loss_after(const comm::Communicator& world, int steps) {
  const Mesh mesh(world, parse_mesh("tensor=2,ring=2"));
  const auto kernels = make_kernels("cpu", world.device());
  const auto schedule = make_schedule("zigzag", mesh.sequence(), *kernels);
  Transformer model({}, {.recompute = Recompute::full}, mesh, *schedule);
  Trainer trainer(model, mesh, {.learning_rate = 0.01});

  std::vector<Sample> batch(1);
  for (int i = 0; i < 101; ++i) batch[0].ids.push_back(i % 5);
  const Sequence sequence = common_sequence(batch);
  const Tokens shard = shard_batch(batch, sequence, schedule->shard(sequence));
  double loss = 0;
  for (int step = 0; step < steps; ++step) loss = trainer.step(sequence, shard).mean();
  return loss;
}

}  // namespace

int main() {
  double loss = 0;
  comm::LaunchOptions options;
  options.ranks = 4;
  comm::launch("threads", options, [&](const comm::Communicator& world) {
    const double own = loss_after(world, 40);
    if (world.rank() == 0) loss = own;
  });
  std::printf("loss of the fortieth step: %.3f\n", loss);
  return loss > 0 && loss < 0.5 ? 0 : 1;
}
