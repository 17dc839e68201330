// SPDX-License-Identifier: Apache-2.0
#include "bench/probe_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <vector>

#include "bench/ask/cluster_file.hpp"
#include "bench/gpu_machine.hpp"
#include "comm/collectives.hpp"
#include "comm/devices/cuda/device.hpp"
#include "comm/error.hpp"
#include "comm/nodes.hpp"
#include "comm/ring_exchange.hpp"

namespace ringspan::bench {
namespace {

constexpr std::int64_t kLong = 64 << 20, kShort = 256;  // bytes
constexpr int kLongCalls = 20, kShortCalls = 200;

/// Seconds of one call that queues work, and of the host's part in it; the most of all ranks.
struct Seconds {
  double done, queued;
};

Seconds seconds_of(const comm::Communicator& comm, int calls, const std::function<void()>& call) {
  comm::Device& device = comm.device();
  call();
  device.synchronize(comm.deadline());
  comm::barrier(comm);
  device.synchronize(comm.deadline());
  const double start = device.now();
  for (int i = 0; i < calls; ++i) call();
  const double queued = device.now() - start;
  device.synchronize(comm.deadline());
  const double done = device.now() - start;
  return {comm::all_reduce(comm, done, comm::Reduction::max) / calls,
          comm::all_reduce(comm, queued, comm::Reduction::max) / calls};
}

/// By their UUIDs, for a rank may see its own alone.
int count_gpus(const comm::Communicator& comm) {
  const auto& device = dynamic_cast<const comm::cuda::CudaDevice&>(comm.device());
  std::vector<comm::cuda::Uuid> distinct;
  for (const auto& uuid : comm::all_gather_values(comm, device.compute().gpu().uuid()))
    if (std::find(distinct.begin(), distinct.end(), uuid) == distinct.end())
      distinct.push_back(uuid);
  return static_cast<int>(distinct.size());
}

Seconds hops(const comm::Communicator& comm, int calls, std::int64_t bytes) {
  comm::RingExchange ring(comm, bytes);
  ring.begin();
  return seconds_of(comm, calls, [&] {
    ring.start(bytes, bytes);
    ring.finish();
  });
}

Seconds copies(const comm::Communicator& comm, int calls, std::int64_t bytes) {
  const comm::Buffer to = comm.device().allocate(bytes), from = comm.device().allocate(bytes);
  return seconds_of(comm, calls, [&] { comm.device().copy(whole(to), whole(from)); });
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The name of the described cluster whose GPUs these are.
std::string described(const std::string& gpu) {
  for (const std::string& name : known_clusters()) {
    if (name.find('-') == name.npos && lower_case(gpu).find(name) != gpu.npos) return name;
  }
  RINGSPAN_REQUIRE(false, "--cluster: the speed of attention on '", gpu,
                   "' is not known; known are the GPUs of ", name_list(known_clusters()));
  return {};
}

}  // namespace

GpuFigures probe_gpus(const comm::Communicator& comm) {
  GpuFigures figures;
  const std::optional<GpuMachine> machine = gpu_machine();
  figures.gpu = machine->name;
  figures.memory_bytes = machine->memory_bytes;
  figures.ranks = comm.size();
  figures.gpus = count_gpus(comm);
  figures.nodes = comm::Nodes(comm).count();
  figures.copy_bytes_per_second = kLong / copies(comm, kLongCalls, kLong).done;
  figures.issue_seconds = copies(comm, kShortCalls, kShort).queued;
  if (comm.size() == 1) return figures;
  figures.hop_seconds = hops(comm, kShortCalls, kShort).done;
  figures.hop_bytes_per_second = kLong / hops(comm, kLongCalls, kLong).done;
  return figures;
}

void print(const GpuFigures& figures) {
  fmt::print("{} rank{}, {}\n", figures.ranks, figures.ranks == 1 ? "" : "s", figures.gpu);
  fmt::print("{:<44} {:>10.1f} GB/s\n", "copied inside a GPU",
             figures.copy_bytes_per_second * 1e-9);
  fmt::print("{:<44} {:>10.2f} us\n", "of the host for each operation queued",
             figures.issue_seconds * 1e6);
  if (figures.ranks == 1) return;
  fmt::print("{:<44} {:>10.2f} us\n", "a short message to the next rank",
             figures.hop_seconds * 1e6);
  fmt::print("{:<44} {:>10.1f} GB/s\n", "long ones, while all ranks send",
             figures.hop_bytes_per_second * 1e-9);
}

comm::Cluster cluster_of(const GpuFigures& figures, std::string_view transport) {
  comm::Cluster cluster = read_cluster(described(figures.gpu));
  RINGSPAN_REQUIRE(figures.ranks > 1,
                   "--cluster: one rank sends nothing; two or more are needed, each on its GPU");
  RINGSPAN_REQUIRE(figures.ranks <= figures.gpus, "--cluster: ", figures.ranks, " ranks share ",
                   figures.gpus, figures.gpus == 1 ? " GPU" : " GPUs",
                   "; a cluster has one for each");
  RINGSPAN_REQUIRE(figures.nodes == 1, "--cluster: the ranks are on ", figures.nodes,
                   " nodes; what is measured is one node, so start them there");
  cluster.name.clear();
  cluster.nodes = 1;
  cluster.gpus_per_node = cluster.fabric.gpus_per_switch = figures.ranks;
  cluster.gpu.memory_bytes = figures.memory_bytes;
  cluster.gpu.memory_bytes_per_second = 2 * figures.copy_bytes_per_second;
  cluster.fabric.gpu_bytes_per_second = figures.hop_bytes_per_second;
  cluster.fabric.messages.latency_seconds = cluster.fabric.messages.short_latency_seconds =
      figures.hop_seconds;
  if (transport == "cuda_ipc") {  // copy engines
    cluster.fabric.messages.channels = 0;
    cluster.fabric.messages.kernel_slowdown = 1;
  }
  cluster.issue_seconds = figures.issue_seconds;
  return cluster;
}

}  // namespace ringspan::bench
