// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/launch.hpp"

namespace ringspan::comm::test {

/// What the tests run on: the transport that RINGSPAN_TEST_TRANSPORT names, threads without it. Any
/// other needs one process per rank, all of which run the same tests in the same order:
///   RINGSPAN_TEST_TRANSPORT=mpi mpirun -np 5 comm_transport_test
/// With RINGSPAN_TEST_GPU_MEMORY=1 the memory of mpi and ucx is that of GPUs.
/// On a real GPU with RINGSPAN_TEST_REACHABLE=1, for the tests look at its memory.
std::string_view transport();
bool on_threads();
/// Ranks are threads, too, but messages move beside the host, in the order of a GPU's streams. The
/// tests look at memory as soon as they have waited, so every launch is a blocking one there.
bool on_gpus();

/// This process among those that run the test; the only one on threads.
Process process();

/// comm::launch on the transport under test. What that cannot run is skipped: more ranks than
/// processes, hops by reference without a common address space. Processes without a rank wait.
void launch(const LaunchOptions& options, const RankFunction& body);

/// What launch() throws.
std::optional<Error> failure_of(const LaunchOptions& options, const RankFunction& body);

/// Runs `check` on every rank; the failure of the lowest rank that has one, on every process.
using RankCheck = std::function<testing::AssertionResult(const Communicator&)>;
testing::AssertionResult on_every_rank(const LaunchOptions& options, const RankCheck& check);

/// How a block may get to the next rank there.
std::vector<Hop> hops();

/// For loops over numbers of ranks: false, and counted as left out, if launch() would skip the
/// rest.
bool enough_processes(int ranks);
int left_out();

/// Skips the rest of the test, with the reason why it says something about threads alone.
void only_on_threads(std::string_view reason);
/// Likewise of where the rank itself moves what it receives.
void not_on_gpus(std::string_view reason);

/// [process]: what each has passed. Collective over all of them.
std::vector<std::string> gather(const std::string& mine);

}  // namespace ringspan::comm::test
