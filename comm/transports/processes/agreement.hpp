// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include "comm/bootstrap.hpp"
#include "comm/devices/cuda/gpu.hpp"
#include "comm/launch.hpp"
#include "comm/transports/processes/seat.hpp"

namespace ringspan::comm::processes {

/// The caller's, or else MPI's. Throws not_available where there is neither.
Bootstrap bootstrap_of(std::string_view transport, const LaunchOptions& options);

/// Runs a launch. Unless it fails, and someone may be gone, MPI may take its time in the end if it
/// is the bootstrap: also where all are refused alike.
void part_well(const LaunchOptions& options, const std::function<void()>& launch);

/// Whether the environment has what launchers leave there, and MPI can be asked. Asking MPI itself
/// would start it, which takes a while.
bool has_launcher();
/// This process among those that MPI knows, if there is a launcher: Backend::process. After the
/// first call any thread may ask.
Process own_process(double deadline);

/// What starting up may take, in seconds: processes start, and leave a launch that has failed, at
/// different times.
double start_deadline(const LaunchOptions& options);

/// What every process passes, [process]. Collective.
template <typename Value>
std::vector<Value> all_gather(const Bootstrap& bootstrap, const Value& mine, double deadline) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> all(bootstrap.size);
  bootstrap.all_gather(reinterpret_cast<const std::byte*>(&mine),
                       reinterpret_cast<std::byte*>(all.data()), sizeof(Value), deadline);
  return all;
}

/// Whether the ranks of a launch are to be processes: a launcher has started others, as
/// ranks_are_processes() has it, or the caller.
bool are_apart(const LaunchOptions& options);

/// The GPU of that process: of those of its host as many as there are processes before it, modulo
/// their number.
std::shared_ptr<const cuda::Gpu> gpu_of(const std::vector<Seat>& seats, int process);

/// A step that all processes take, or none goes on: what it throws in any of them, whatever that
/// is, all throw as an Error, as the first of these says it. Collective.
void all_or_none(const Bootstrap& bootstrap, double deadline, const std::function<void()>& step);

/// Where all processes run, which must have been given the same options, and be enough. Collective;
/// ends within start_deadline().
std::vector<Seat> agree(const LaunchOptions& options, const Bootstrap& bootstrap);

}  // namespace ringspan::comm::processes
