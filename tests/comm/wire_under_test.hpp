// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "comm/error.hpp"
#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/processes/launch.hpp"
#include "tests/comm/forwarding_wire.hpp"
#include "tests/comm/transport_under_test.hpp"
#ifdef RINGSPAN_MPI
#include "comm/transports/mpi/mpi_wire.hpp"
#endif
#ifdef RINGSPAN_UCX
#include "comm/transports/ucx/ucx_wire.hpp"
#endif

namespace ringspan::comm::test {

inline std::unique_ptr<processes::Wire> make_wire(const Bootstrap& bootstrap, double deadline) {
#ifdef RINGSPAN_MPI
  if (transport() == "mpi") {
    auto& session = mpi::Session::instance(deadline);
    return mpi::make_mpi_wire(session, session.tags(), bootstrap, deadline);
  }
#endif
#ifdef RINGSPAN_UCX
  if (transport() == "ucx") return ucx::make_ucx_wire(bootstrap, deadline);
#endif
  throw Error(ErrorKind::not_available, concat("no wire of ", transport()));
}

/// Of the wire between processes that the transport under test has; skipped where it has none.
class WireTest : public testing::Test {
 protected:
  void SetUp() override {
    const Backend& tested = backend(transport());
    const bool has_wire = tested.process && tested.world == "host";  // GPUs share memory instead
    if (!has_wire) GTEST_SKIP() << "only between processes";
  }

  static int ranks(int most) { return std::min(most, process().size); }

  /// With the wire that `wrap` makes of the transport's own.
  template <typename Wrap>
  static void launch(const LaunchOptions& options, const RankFunction& body, const Wrap& wrap) {
    processes::launch(options, body, processes::bootstrap_of(transport(), options),
                      [&wrap](const Bootstrap& bootstrap, double deadline) {
                        return wrap(make_wire(bootstrap, deadline));
                      });
  }
};

}  // namespace ringspan::comm::test
