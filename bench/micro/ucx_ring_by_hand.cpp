// SPDX-License-Identifier: Apache-2.0
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "bench/call_deadline.hpp"
#include "bench/micro/ring_by_hand.hpp"
#include "comm/collectives.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

void check(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  throw Error(ErrorKind::system, concat("UCX, ", what, ": ", ucs_status_string(status)));
}

constexpr ucp_tag_t kTag = 1, kWholeTag = ~ucp_tag_t{0};

/// Everything at UCX's own defaults.
class Ring {
 public:
  Ring(const comm::Communicator& comm, std::size_t bytes)
      : comm_(comm),
        held_(bytes, std::byte{1}),
        incoming_(bytes, std::byte{2}),
        deadline_(comm.deadline(), "a request of UCX") {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    check(ucp_init(&params, nullptr, &context_), "starting");
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    check(ucp_worker_create(context_, &worker, &worker_), "creating a worker");
    connect();
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  ~Ring() {
    ucp_request_param_t none{};
    complete(ucp_ep_close_nbx(next_, &none));
    comm::barrier(comm_);  // the other side may still need this worker
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }

  void hop() {
    ucp_request_param_t none{};
    void* received =
        ucp_tag_recv_nbx(worker_, incoming_.data(), incoming_.size(), kTag, kWholeTag, &none);
    void* sent = ucp_tag_send_nbx(next_, held_.data(), held_.size(), kTag, &none);
    complete(received);
    complete(sent);
    std::swap(held_, incoming_);
  }

 private:
  void connect() {
    ucp_address_t* address = nullptr;
    std::size_t length = 0;
    check(ucp_worker_get_address(worker_, &address, &length), "asking for an address");
    const auto longest = static_cast<std::size_t>(
        comm::all_reduce(comm_, static_cast<std::int64_t>(length), comm::Reduction::max));
    std::vector<std::byte> all(longest * comm_.size());
    std::copy_n(reinterpret_cast<const std::byte*>(address), length, &all[longest * comm_.rank()]);
    ucp_worker_release_address(worker_, address);
    comm::all_gather_bytes(comm_, all.data(), static_cast<std::int64_t>(longest));
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(&all[longest * comm_.next()]);
    check(ucp_ep_create(worker_, &params, &next_), "connecting");
  }

  void complete(void* request) {
    if (!UCS_PTR_IS_PTR(request)) return check(UCS_PTR_STATUS(request), "a request");
    deadline_([&] {
      while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker_);
    });
    check(ucp_request_check_status(request), "a request");
    ucp_request_free(request);
  }

  comm::Communicator comm_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h next_ = nullptr;
  std::vector<std::byte> held_, incoming_;
  CallDeadline deadline_;
};

}  // namespace

HopByHand ucx_ring_by_hand(const comm::Communicator& comm, std::int64_t bytes) {
  const auto ring = std::make_shared<Ring>(comm, static_cast<std::size_t>(bytes));
  return [ring] { ring->hop(); };
}

}  // namespace ringspan::bench
