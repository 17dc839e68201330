// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "bench/primitives/bandwidth.hpp"
#include "comm/communicator.hpp"

namespace ringspan::bench {

/// What one rank has to run a primitive with. The two buffers hold `bytes` each and serve all
/// primitives of one size in turn.
struct Setting {
  comm::Communicator comm;
  std::int64_t bytes = 0;  // S as asked for
  int inner_ring = 0;      // of double_ring; 0: the ranks of a node
  comm::Buffer first, second;
};

/// A primitive of one size on one rank; the same calls on all of them.
struct Operation {
  std::int64_t bytes = 0;  // S: what was asked for, rounded down to whole equal parts
  std::int64_t count = 0;  // elements, as nccl-tests counts them: per rank where S is cut
  std::function<void()> run;
  std::function<std::int64_t()> checked_run;  // on labelled data; how many elements are wrong
  int messages = 1;                           // a run is so many, one after the other
  std::string algorithm = {};                 // of an all-to-all
};

/// What nccl-tests would say of a primitive.
struct NcclNotes {
  bool in_place = false;
  std::string_view reduction = "none";
  int root = -1;  // none
};

struct Primitive {
  std::string_view name;
  std::string_view family;  // primitives of one family are timed in turns
  BusFactor factor;
  /// Throws invalid_argument on all ranks if it cannot do this. Collective.
  Operation (*prepare)(const Setting&);
  NcclNotes nccl = {};
  std::string_view transport = {};  // the only one that has it; empty: all
};

std::span<const Primitive> primitives();

Operation ring_to_next(const Setting& setting);
Operation ring_to_prev(const Setting& setting);
Operation bidirectional_ring(const Setting& setting);
Operation double_ring(const Setting& setting);

Operation all_to_all_direct(const Setting& setting);
Operation all_to_all_hierarchical(const Setting& setting);
Operation all_to_all_automatic(const Setting& setting);
Operation all_to_all_v(const Setting& setting);
Operation mpi_alltoall(const Setting& setting);  // where this build has MPI

Operation all_gather(const Setting& setting);
Operation reduce_scatter(const Setting& setting);
Operation all_reduce(const Setting& setting);
Operation broadcast(const Setting& setting);
Operation barrier(const Setting& setting);
Operation point_to_point(const Setting& setting);

/// S cut into `parts` equal parts of whole elements; throws invalid_argument if nothing is left.
std::int64_t equal_part(const Setting& setting, std::int64_t parts);

}  // namespace ringspan::bench
