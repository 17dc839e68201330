// SPDX-License-Identifier: Apache-2.0
// One process of a job in which one rank goes wrong on purpose. Started by run_faults.py, which
// reads what every rank leaves in the folder: the time of the fault, the time and text of the end.
//   victim TRANSPORT PHASE FAULT CULPRIT POST RANKS DEADLINE FOLDER [RANK]
// RANK: bootstrap through the folder; without it the launcher is MPI's, or ranks are threads.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "attention/schedule.hpp"
#include "comm/all_to_all.hpp"
#include "comm/launch.hpp"
#include "comm/ring_exchange.hpp"
#include "tests/comm/pretended_hosts.hpp"
#include "tests/process_faults/faulty_transport.hpp"
#include "tests/process_faults/file_bootstrap.hpp"

namespace ringspan {
namespace {

using comm::Communicator;
using comm::test::Injection;

constexpr std::int64_t kBytes = 96 << 10;  // above what UCX and MPI send eagerly
constexpr int kRounds = 5;
constexpr std::int64_t kTokens = 512;  // of a rank

struct Job {
  std::string transport, phase, fault;
  int culprit, post, ranks;
  double deadline;
  std::filesystem::path folder;
  int rank;  // of this process; -1: ranks are threads
  bool own_bootstrap;
};

void note(const Job& job, int rank, std::string_view what, std::string text = "") {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  std::ofstream file(job.folder / concat("rank.", rank), std::ios::app);
  file.precision(3);
  file << what << ' ' << std::fixed << seconds << ' ' << text << std::endl;
}

void strike(const Job& job) {
  note(job, job.culprit, "fault");
  if (job.fault == "kill") raise(SIGKILL);
  if (job.fault == "stop") raise(SIGSTOP);
  if (job.fault == "exit") std::exit(0);
  if (job.fault == "never") std::this_thread::sleep_for(std::chrono::hours(1));
  if (job.fault == "late") {
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * job.deadline));
  }
}

void turn_ring(const Communicator& comm) {
  comm::RingExchange ring(comm, kBytes);
  ring.begin();
  for (int hop = 0; hop < comm.size(); ++hop) {
    ring.start(kBytes, kBytes);
    ring.finish();
  }
}

void exchange_all(const Communicator& comm) {
  const auto out = comm.device().allocate(kBytes * comm.size());
  const auto in = comm.device().allocate(kBytes * comm.size());
  comm::all_to_all(comm, whole(out), whole(in));
}

/// Forward and backward of a zigzag ring; the fault belongs to the backward pass.
void differentiate(const Communicator& comm, Injection& injection) {
  using namespace attention;
  Problem problem;
  problem.shape = {.batch = 1, .heads = 2, .kv_heads = 2, .head_dim = 16, .value_dim = 16};
  problem.sequence.length = kTokens * comm.size();
  problem.mask = parse_mask("causal");
  comm::Device& device = comm.device();
  const auto kernels = make_kernels(device.name() == "cuda" ? "cuda" : "cpu", device);
  const auto schedule = make_schedule("zigzag", comm, *kernels);
  const auto plan = schedule->plan(problem);
  std::vector<Tensor> tensors;
  for (int i = 0; i < 8; ++i) tensors.emplace_back(device, DType::f32, 1, kTokens, 2, 16);
  const auto view = [&](int which) { return tensors[which].view(); };
  for (const int which : {0, 1, 2, 4}) kernels->fill(view(which), 0.5);
  const Inputs inputs{view(0), view(1), view(2)};
  const auto saved = plan->make_saved();
  const int armed = std::exchange(injection.posts_before, -1);
  plan->forward(inputs, {view(3)}, saved.get());
  injection.posts_before = armed;
  plan->backward(inputs, {view(3)}, *saved, view(4), {view(5), view(6), view(7)});
}

/// What every rank does; the culprit with a fault in it.
void run_rank(const Job& job, const Communicator& world) {
  const bool culprit = world.rank() == job.culprit;
  const bool inside = job.phase == "ring" || job.phase == "all_to_all" || job.phase == "backward";
  const auto injection = std::make_shared<Injection>();
  injection->wrong_size = job.fault == "wrong_size";
  injection->strike = [&] { strike(job); };
  if (culprit && inside) injection->posts_before = job.post;
  const Communicator comm =
      world.through(comm::test::make_faulty_transport(world.transport(), injection));
  for (int round = 0; round < kRounds; ++round) {
    if (job.phase == "all_to_all") {
      exchange_all(comm);
    } else if (job.phase == "backward") {
      differentiate(comm, *injection);
    } else {
      turn_ring(comm);
    }
    comm.device().synchronize(job.deadline);  // where GPUs tell what went wrong
  }
  if (culprit && job.phase == "shutdown") strike(job);
}

/// `hosts`: how many processes each has, with a comma after it.
comm::Bootstrap on_played_hosts(const Job& job, const comm::Bootstrap& bootstrap,
                                const char* hosts) {
  std::istringstream numbers(hosts);
  std::vector<int> per_host;
  char comma = 0;
  for (int number = 0; numbers >> number >> comma;) per_host.push_back(number);
  setenv("CUDA_VISIBLE_DEVICES", std::to_string(job.rank).c_str(), 1);  // no host has another's
  return comm::test::on_hosts(bootstrap, per_host);
}

void launch(const Job& job) {
  comm::LaunchOptions options;
  options.ranks = job.ranks;
  options.deadline = job.deadline;
  if (job.own_bootstrap) {
    options.bootstrap = comm::test::file_bootstrap(job.folder, job.rank, job.ranks);
    if (const char* hosts = std::getenv("VICTIM_HOSTS"))
      options.bootstrap = on_played_hosts(job, *options.bootstrap, hosts);
  }
  const bool culprit = job.rank == job.culprit;
  if (culprit && job.phase == "start") strike(job);
  if (job.phase == "bootstrap") {
    comm::launch(job.transport, options, turn_ring);
    if (culprit) strike(job);
  }
  comm::launch(job.transport, options, [&](const Communicator& world) {
    try {
      run_rank(job, world);
    } catch (const Error& error) {
      note(job, world.rank(), "failed", error.what());
      throw;
    }
  });
  if (culprit && job.phase == "exit") strike(job);
}

int run(const Job& job) {
  const int rank = std::max(job.rank, 0);
  note(job, rank, "pid", std::to_string(getpid()));
  try {
    launch(job);
    note(job, rank, "unharmed");
    return 0;
  } catch (const Error& error) {
    note(job, rank, "failed", error.what());
    return 3;
  }
}

Job job_of(const std::vector<std::string>& words) {
  Job job{words.at(0),       words.at(1),       words.at(2),
          stoi(words.at(3)), stoi(words.at(4)), stoi(words.at(5)),
          stod(words.at(6)), words.at(7),       -1,
          words.size() > 8};
  if (job.own_bootstrap) {
    job.rank = stoi(words[8]);
  } else if (const char* rank = std::getenv("OMPI_COMM_WORLD_RANK")) {
    job.rank = std::atoi(rank);
  }
  return job;
}

}  // namespace
}  // namespace ringspan

int main(int argc, char** argv) { return ringspan::run(ringspan::job_of({argv + 1, argv + argc})); }
