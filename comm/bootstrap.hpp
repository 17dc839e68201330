// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace ringspan::comm {

/// How the processes of a world find each other before a transport connects them; supplied by
/// whatever started them: MPI, or a callback over the caller's own launcher (a TCP store, PMI, a
/// shared file).
struct Bootstrap {
  int rank = 0;
  int size = 1;

  /// Collective over all processes: `mine`, `bytes` long on every one of them, ends at
  /// all + rank * bytes of everyone's `all`. Must end within the deadline it was given in seconds,
  /// by throwing if need be. Called several times by each launch, as a copy: what it counts has to
  /// be shared, as by a pointer.
  std::function<void(const std::byte* mine, std::byte* all, std::size_t bytes, double deadline)>
      all_gather;
};

}  // namespace ringspan::comm
