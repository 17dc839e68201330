// SPDX-License-Identifier: Apache-2.0
// MPI's own all-to-all beside ours, on the processes of transport mpi, whose ranks are MPI's. Only
// a yardstick: what waits inside MPI_Alltoall cannot be interrupted, so that a missing process is
// not named and all of them end.
#include <mpi.h>

#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "bench/call_deadline.hpp"
#include "bench/primitives/labelled_chunks.hpp"
#include "bench/primitives/labels.hpp"
#include "bench/primitives/primitive.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  throw Error(ErrorKind::system, concat(call, " failed with code ", code));
}

/// MPI's communicator of the first `size` processes, which are the ranks.
class FirstProcesses {
 public:
  FirstProcesses(int size, double deadline)
      : deadline_(deadline, "MPI_Alltoall, or MPI_Comm_create_group before it,") {
    deadline_([&] { create(size); });
  }
  FirstProcesses(const FirstProcesses&) = delete;
  FirstProcesses& operator=(const FirstProcesses&) = delete;
  ~FirstProcesses() { MPI_Comm_free(&comm_); }

  void all_to_all(const float* send, float* recv, int count) {
    deadline_([&] {
      check(MPI_Alltoall(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, comm_), "MPI_Alltoall");
    });
  }

 private:
  void create(int size) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    MPI_Group world = MPI_GROUP_NULL, first = MPI_GROUP_NULL;
    check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    check(MPI_Group_incl(world, size, ranks.data(), &first), "MPI_Group_incl");
    check(MPI_Comm_create_group(MPI_COMM_WORLD, first, 0, &comm_), "MPI_Comm_create_group");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    MPI_Group_free(&first);
    MPI_Group_free(&world);
  }

  CallDeadline deadline_;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace

Operation mpi_alltoall(const Setting& setting) {
  const LabelledChunks chunks = equal_chunks(setting);
  const std::int64_t count = chunks.send()[0].bytes() / kLabelBytes;
  RINGSPAN_REQUIRE(count <= std::numeric_limits<int>::max(), "mpi_alltoall: ", count,
                   " elements per pair are more than MPI can count");
  const auto processes =
      std::make_shared<FirstProcesses>(setting.comm.size(), setting.comm.deadline());
  const auto run = [=] {
    processes->all_to_all(reinterpret_cast<const float*>(chunks.send()[0].data()),
                          reinterpret_cast<float*>(chunks.recv()[0].data()),
                          static_cast<int>(count));
  };
  return {chunks.bytes(), count, run, [=] { return chunks.checked(run); }};
}

}  // namespace ringspan::bench
