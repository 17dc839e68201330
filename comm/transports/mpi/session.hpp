// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/bootstrap.hpp"

namespace ringspan::comm::mpi {

/// Throws system, with MPI's own words.
void check(int code, const char* call);

/// For what MPI says of a message with a peer, whatever call says it: throws peer_failed.
void check_message(int code, int rank, int peer);

/// Whether MPI has nothing of the request any more; unlike MPI_Wait, both return at once.
/// withdrawn() first takes back a receive, which MPI does not do once a message has met it.
bool ended(MPI_Request& request);
bool withdrawn(MPI_Request& request);

/// MPI as this process uses it, through one communicator of its own. Initialised at the first use
/// unless the program has done it, and then finalised at exit. MPI allows one per process.
class Session {
 public:
  /// Collective at the first call, which ends within about `deadline` seconds.
  static Session& instance(double deadline);

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// All-gathers among the processes, for one launch.
  Bootstrap bootstrap();

  // Every launch has tags of its own, so that nothing that was left behind by a failure matches.
  std::int64_t tags() const { return tags_; }
  std::int64_t first_unused_tag() const { return unused_tag_; }
  void use_tag(std::int64_t tag) { unused_tag_ = std::max(unused_tag_, tag + 1); }

  /// How long MPI_Finalize may take at exit.
  void set_patience(double seconds) { patience_ = seconds; }

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

 private:
  explicit Session(double deadline);
  void connect(double deadline);
  void all_gather(std::span<const std::byte> mine, std::byte* all, int tag, double deadline) const;

  bool owns_mpi_ = false;
  double patience_ = 0;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Comm duplicate_ = MPI_COMM_NULL;  // of the world's; MPI writes it even after a timeout
  MPI_Request duplication_ = MPI_REQUEST_NULL;
  int rank_ = 0, size_ = 1;
  std::int64_t tags_ = 0, unused_tag_ = 0;
  std::int64_t launches_ = 0;
};

}  // namespace ringspan::comm::mpi
