// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "comm/transports/ucx/addresses.hpp"

namespace ringspan::comm::ucx {

/// Throws system, with the reason UCX gives, unless the status is good.
void require_ok(ucs_status_t status, std::string_view what);

/// UCX as Ringspan uses it: one worker for one thread. The environment (UCX_TLS, UCX_NET_DEVICES
/// and all else) has the last word on its settings.
class Worker {
 public:
  explicit Worker(int ranks);

  ucp_worker_h get() const { return worker_.get(); }

  /// Whether messages may be in memory of a GPU.
  bool reaches_gpus() const;

  /// By which other processes reach this worker.
  std::vector<std::byte> address() const;

 private:
  struct Release {
    void operator()(ucp_context_h context) const { ucp_cleanup(context); }
    void operator()(ucp_worker_h worker) const { ucp_worker_destroy(worker); }
  };

  std::unique_ptr<ucp_context, Release> context_;
  std::unique_ptr<ucp_worker, Release> worker_;
};

/// Keeps a worker to which these processes, those of its launch, may still connect, though this
/// rank is done with it. UCX before 1.14 aborts a process that owes an answer to a worker which is
/// gone.
void retire(Worker worker, std::vector<processes::ProcessIdentity> launched);

/// Destroys what was retired of launches whose processes have all come to a later one, that of
/// `present`, or ended. Returns how many are kept; what is still there when the process ends goes
/// with it.
std::size_t destroy_retired(std::span<const Address> present);

}  // namespace ringspan::comm::ucx
