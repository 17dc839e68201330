// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/bootstrap.hpp"
#include "comm/cluster.hpp"
#include "comm/communicator.hpp"
#include "comm/gpu_resources.hpp"
#include "comm/trace.hpp"

namespace ringspan::comm {

/// How a block that stays in one address space gets to the next rank.
enum class Hop { copy, reference };

/// Checks that cost time; for tests and for hunting a fault.
struct DebugOptions {
  bool ledger = false;     // check order, size and kind of every pair of messages across all groups
  bool poison = false;     // fill new and released buffers with NaN
  bool blocking = false;   // queue nothing on a GPU without waiting for it: failures show at once
  bool reachable = false;  // memory of the host in place of a GPU's own, which the host can look at
  double max_delay = 0.0;  // seconds; a random delay up to this before each post, match and wait
  std::uint64_t seed = 0;  // of the delays
};

struct LaunchOptions {
  int ranks = 1;
  int ranks_per_node = 0;  // 0: as the machine says; otherwise pretend: rank r is on node r / this
  int ranks_per_numa_domain = 0;  // likewise, of the ranks of a node
  Hop hop = Hop::copy;
  double deadline = 60.0;  // seconds without progress of an awaited peer
  DebugOptions debug = {};
  std::string flight_recorder = {};  // where a failure leaves each rank's last operations; or empty
  std::optional<Bootstrap> bootstrap = {};  // of transports that need one; none: MPI's
  /// Each rank's memory is that of a GPU of its host: asked of mpi and ucx, always so of nccl and
  /// cuda_ipc; threads and simulated refuse it.
  bool gpu_memory = false;
  BringGpuResources gpu_resources = {};  // of ranks on GPUs: the caller's own stream and memory
  std::shared_ptr<const Cluster> cluster = {};  // of the simulated transport, which needs one
  Trace trace = {};                             // told what simulated, nccl and cuda_ipc do
  bool trace_joins_kernels = false;  // neighbours in a queue may be one span, which is faster
};

/// The defaults above, overridden by the environment: RINGSPAN_RANKS_PER_NODE,
/// RINGSPAN_RANKS_PER_NUMA_DOMAIN, RINGSPAN_TIMEOUT_S,
/// RINGSPAN_DEBUG (a comma list of ledger, poison, blocking, reachable, delay),
/// RINGSPAN_FLIGHT_RECORDER (a folder).
/// launch() itself reads no environment: it takes what it is given. Throws invalid_argument for
/// values that do not parse.
LaunchOptions launch_options_from_environment();

/// Ranks in order on nodes of `ranks_per_node`, or all on one node if that is 0, and there on NUMA
/// domains likewise; as many rails as ranks per node.
std::vector<Place> even_places(int ranks, int ranks_per_node, int ranks_per_numa_domain = 0);

/// The work of one rank. It may throw: the others then fail too, and launch() rethrows the first
/// cause.
using RankFunction = std::function<void(const Communicator&)>;

/// This process among those that a launcher (mpirun, srun) started together.
struct Process {
  int rank = 0;
  int size = 1;
};

/// A transport that this build contains.
struct Backend {
  std::string_view name;
  std::string_view summary;
  std::string_view world;  // "host", "gpu" or "simulated"
  /// Empty if usable here, otherwise the reason why not.
  std::string (*unavailable)();
  /// Runs the function once for every rank that lives in this process and returns when all have
  /// ended. Where ranks are processes, all of them throw the reason that any of them has.
  void (*launch)(const LaunchOptions&, const RankFunction&);
  /// Where ranks may be processes, each of which calls launch: which one this is, without a
  /// bootstrap by the caller; what the first call starts has about `deadline` seconds. Null where
  /// ranks can only be threads of this process.
  Process (*process)(double deadline) = nullptr;
  /// What was found here at run time, with versions; null where all was decided when it was built.
  std::string (*found)() = nullptr;
};

std::span<const Backend> backends();

/// Throws invalid_argument, listing the known names.
const Backend& backend(std::string_view name);

/// Whether ranks are processes, without a bootstrap by the caller: the transport has such, and a
/// launcher has started more than this one. (A batch script, too, has the variables of its
/// launcher, but is alone.)
bool ranks_are_processes(const Backend& backend,
                         double deadline = launch_options_from_environment().deadline);

/// Runs `body` on every rank and returns when all have ended; a rank that hangs in the caller's own
/// code is reported by the others, but cannot be stopped. Throws the first failure of any rank: its
/// Error as it was, or an Error that quotes any other exception. On a transport across processes
/// every process of the world calls it, those beyond options.ranks to wait for the others; all of
/// them throw the same.
void launch(std::string_view transport, const LaunchOptions& options, const RankFunction& body);

}  // namespace ringspan::comm
