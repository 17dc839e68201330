// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/ucx/ucx_wire.hpp"

#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <thread>
#include <utility>

#include "comm/error.hpp"
#include "comm/transports/ucx/addresses.hpp"
#include "comm/transports/ucx/peer.hpp"
#include "comm/transports/ucx/worker.hpp"

namespace ringspan::comm::ucx {
namespace {

using Clock = std::chrono::steady_clock;
using processes::Notice;
using processes::Transfer;

constexpr int kTagBits = 32;                    // of UCX's 64; the others hold the sender's rank
constexpr std::chrono::seconds kTimeToPart(1);  // for others to end as well
constexpr std::chrono::milliseconds kTimeToLeave(250);   // for what was sent last
constexpr std::chrono::milliseconds kBetweenLooks(100);  // after peers on this machine
constexpr int kProgressAtOnce = 256;  // so that progress() ends, however fast peers send

class UcxTransfer final : public Transfer {
 public:
  /// `request`: as UCX returned it, so null if that is done already, or an error.
  UcxTransfer(ucp_worker_h worker, Peer& peer, ucs_status_ptr_t request)
      : worker_(worker), peer_(peer), request_(request) {}
  UcxTransfer(const UcxTransfer&) = delete;
  UcxTransfer& operator=(const UcxTransfer&) = delete;
  ~UcxTransfer() override {
    if (!UCS_PTR_IS_PTR(request_)) return;
    ucp_request_cancel(worker_, request_);
    ucp_request_free(request_);
  }

  bool done() override {
    const ucs_status_t now = status();
    if (now == UCS_OK || now == UCS_ERR_MESSAGE_TRUNCATED) return true;
    if (cancelled_) return now != UCS_INPROGRESS;
    if (now == UCS_INPROGRESS && peer_.lost().empty()) return false;
    peer_.close();
    peer_.throw_failed(now);
  }

  std::int64_t received() const override {
    ucp_tag_recv_info_t info{};
    ucp_tag_recv_request_test(request_, &info);
    return static_cast<std::int64_t>(info.length);
  }

  // UCX cannot cancel what has met its message; a peer that is alive soon sends the rest.
  bool cancel() override {
    cancelled_ = true;
    if (UCS_PTR_IS_PTR(request_)) ucp_request_cancel(worker_, request_);
    return status() != UCS_INPROGRESS;
  }

 private:
  ucs_status_t status() const {
    return UCS_PTR_IS_PTR(request_) ? ucp_request_check_status(request_) : UCS_PTR_STATUS(request_);
  }

  const ucp_worker_h worker_;
  Peer& peer_;
  const ucs_status_ptr_t request_;
  bool cancelled_ = false;
};

class UcxWire final : public processes::Wire {
 public:
  UcxWire(int rank, int size) : rank_(rank), worker_(size), peers_(size) {
    expect(Words::notice, on_notice);
    expect(Words::goodbye, on_goodbye);
  }

  // UCX aborts when it destroys a worker that owes an answer to an endpoint of another process,
  // unless there is one of its own to that process, which has been closed. Those whom this rank has
  // heard have one; after a failure, anybody may have begun to connect, or may do so yet. Once they
  // are closed, UCX must not see what else comes in.
  ~UcxWire() override {
    const bool in_order = !failed_ && part() && notices_.empty();
    flush();
    drop_unexpected();
    for (int rank = 0; rank < size() && !in_order; ++rank) peer(rank);
    peers_.clear();
    if (in_order) return;
    std::vector<processes::ProcessIdentity> launched;
    for (const Address& address : addresses_) launched.push_back(address.process);
    retire(std::move(worker_), std::move(launched));
  }

  std::vector<std::byte> address() const { return worker_.address(); }
  void set_addresses(std::vector<Address> addresses) { addresses_ = std::move(addresses); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  bool reaches_gpus() const override { return worker_.reaches_gpus(); }
  std::int64_t tags() const override { return std::int64_t{1} << kTagBits; }

  std::unique_ptr<Transfer> send(int to, std::int64_t tag,
                                 std::span<const std::byte> bytes) override {
    Peer& receiver = peer(to);
    const ucp_request_param_t param{};
    const ucs_status_ptr_t request =
        receiver.endpoint() ? ucp_tag_send_nbx(receiver.endpoint(), bytes.data(), bytes.size(),
                                               full_tag(rank_, tag), &param)
                            : UCS_STATUS_PTR(UCS_ERR_NOT_CONNECTED);
    return std::make_unique<UcxTransfer>(worker_.get(), receiver, request);
  }

  std::unique_ptr<Transfer> receive(int from, std::int64_t tag,
                                    std::span<std::byte> bytes) override {
    Peer& sender = peer(from);  // connected to, so that UCX tells when it is gone
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;  // the request knows what came in
    constexpr ucp_tag_t every_bit = ~ucp_tag_t{0};
    const ucs_status_ptr_t request = ucp_tag_recv_nbx(worker_.get(), bytes.data(), bytes.size(),
                                                      full_tag(from, tag), every_bit, &param);
    return std::make_unique<UcxTransfer>(worker_.get(), sender, request);
  }

  bool send_notice(int to, std::span<const std::byte> bytes) override {
    return peer(to).send_notice(bytes);
  }

  std::optional<Notice> receive_notice() override {
    if (notices_.empty()) return std::nullopt;
    Notice first = std::move(notices_.front());
    notices_.pop_front();
    peer(first.from);  // see ~UcxWire()
    return first;
  }

  void progress() override {
    look_after_peers();  // first: what the dead have sent is then still received
    for (int i = 0; i < kProgressAtOnce; ++i)
      if (ucp_worker_progress(worker_.get()) == 0) return;
  }

  std::string lost(int rank) const override {
    return peers_[rank] ? peers_[rank]->lost() : std::string();
  }

  void fail() override { failed_ = true; }

 private:
  static ucp_tag_t full_tag(int sender, std::int64_t tag) {
    return static_cast<ucp_tag_t>(sender) << kTagBits | static_cast<ucp_tag_t>(tag);
  }

  Peer& peer(int rank) {
    if (!peers_[rank])
      peers_[rank] = std::make_unique<Peer>(worker_.get(), rank_, rank, addresses_[rank]);
    return *peers_[rank];
  }

  void expect(Words words, ucp_am_recv_callback_t callback) {
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                         UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = static_cast<unsigned>(words);
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    handler.cb = callback;
    handler.arg = this;
    require_ok(ucp_worker_set_am_recv_handler(worker_.get(), &handler), "expecting notices");
  }

  static int sender(const void* words) {
    int rank = 0;
    std::memcpy(&rank, words, sizeof rank);
    return rank;
  }

  static ucs_status_t on_notice(void* wire, const void*, std::size_t, void* data, std::size_t bytes,
                                const ucp_am_recv_param_t*) noexcept {
    const auto* first = static_cast<const std::byte*>(data);
    static_cast<UcxWire*>(wire)->notices_.push_back(
        {sender(data), {first + sizeof(int), first + bytes}});
    return UCS_OK;
  }

  static ucs_status_t on_goodbye(void* wire, const void*, std::size_t, void* data, std::size_t,
                                 const ucp_am_recv_param_t*) noexcept {
    static_cast<UcxWire*>(wire)->leaving_.push_back(sender(data));
    return UCS_OK;
  }

  void look_after_peers() {
    constexpr int kLooksPerClock = 16;  // reading it takes longer than a look at messages
    if (++looks_ % kLooksPerClock != 0) return;
    const auto now = Clock::now();
    if (now < next_look_) return;
    next_look_ = now + kBetweenLooks;
    for (const auto& peer : peers_)
      if (peer) peer->look();
  }

  // Waits until all that this rank is connected to leave as well: who closes a connection first may
  // lose what was sent over it last. False if someone is missed.
  bool part() {
    for (const auto end = Clock::now() + kTimeToPart;; std::this_thread::yield()) {
      progress();
      for (const int rank : leaving_) peer(rank).hear_goodbye();
      leaving_.clear();
      bool all = true;
      for (const auto& peer : peers_)
        if (peer && !peer->part()) all = false;
      if (all || Clock::now() > end) return all;
    }
  }

  void flush() {
    const auto end = Clock::now() + kTimeToLeave;
    const ucp_request_param_t param{};
    const ucs_status_ptr_t flushing = ucp_worker_flush_nbx(worker_.get(), &param);
    if (!UCS_PTR_IS_PTR(flushing)) return;
    while (ucp_request_check_status(flushing) == UCS_INPROGRESS && Clock::now() < end) progress();
    ucp_request_free(flushing);
  }

  // What came in and nobody received; UCX would complain.
  void drop_unexpected() {
    ucp_tag_recv_info_t info{};
    const ucp_request_param_t param{};
    constexpr int remove = 1;
    while (const ucp_tag_message_h message = ucp_tag_probe_nb(worker_.get(), 0, 0, remove, &info)) {
      const ucs_status_ptr_t dropping =
          ucp_tag_msg_recv_nbx(worker_.get(), nullptr, 0, message, &param);
      if (UCS_PTR_IS_PTR(dropping)) ucp_request_free(dropping);
    }
  }

  const int rank_;
  Worker worker_;
  std::deque<Notice> notices_;
  std::vector<int> leaving_;                  // ranks whose goodbye has come
  std::vector<Address> addresses_;            // [rank]
  std::vector<std::unique_ptr<Peer>> peers_;  // [rank]; null until needed
  unsigned looks_ = 0;                        // for messages
  Clock::time_point next_look_{};
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<processes::Wire> make_ucx_wire(const Bootstrap& bootstrap, double deadline) {
  std::unique_ptr<UcxWire> wire;
  std::vector<std::byte> address;  // empty: UCX could not start
  std::exception_ptr failure;
  try {
    wire = std::make_unique<UcxWire>(bootstrap.rank, bootstrap.size);
    address = wire->address();
  } catch (const Error&) {
    failure = std::current_exception();  // thrown when the others know
  }
  std::vector<Address> addresses = exchange_addresses(bootstrap, address, deadline);
  destroy_retired(addresses);
  if (failure) std::rethrow_exception(failure);
  wire->set_addresses(std::move(addresses));
  return wire;
}

}  // namespace ringspan::comm::ucx
