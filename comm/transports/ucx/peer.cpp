// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/ucx/peer.hpp"

#include <cstdlib>
#include <cstring>

#include "comm/error.hpp"

namespace ringspan::comm::ucx {
namespace {

// The statuses by which UCX says that there is no peer any more.
bool means_lost(ucs_status_t status) {
  return status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_NOT_CONNECTED ||
         status == UCS_ERR_REJECTED || status == UCS_ERR_CANCELED || status == UCS_ERR_TIMED_OUT ||
         status == UCS_ERR_UNREACHABLE || UCS_IS_ENDPOINT_ERROR(status) ||
         UCS_IS_LINK_ERROR(status);
}

}  // namespace

Peer::Peer(ucp_worker_h worker, int own_rank, int rank, const Address& address)
    : own_rank_(own_rank), rank_(rank), process_(address.process) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, this};
  const ucs_status_t status = ucp_ep_create(worker, &params, &endpoint_);
  if (status == UCS_OK) return;
  endpoint_ = nullptr;
  const char* transports = std::getenv("UCX_TLS");
  lost_ = concat("UCX finds no way to it (", ucs_status_string(status),
                 "): it has ended, or UCX_TLS=", transports ? transports : "all",
                 " lacks a transport between the two that reports failures, such as tcp");
}

void Peer::look() {
  if (lost_.empty() && process_.ended()) lost_ = "its process has ended";
}

void Peer::close() {
  if (!endpoint_) return;
  if (UCS_PTR_IS_PTR(sending_)) ucp_request_free(sending_);
  sending_ = nullptr;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t closing = ucp_ep_close_nbx(endpoint_, &param);
  if (UCS_PTR_IS_PTR(closing)) ucp_request_free(closing);
  endpoint_ = nullptr;
}

bool Peer::part() {
  if (!lost_.empty()) return true;
  if (!said_goodbye_) said_goodbye_ = say(Words::goodbye, {});
  return said_goodbye_ && heard_goodbye_;
}

bool Peer::say(Words words, std::span<const std::byte> bytes) {
  if (!endpoint_ || !lost_.empty()) return true;  // there is no way to it
  if (UCS_PTR_IS_PTR(sending_)) {
    if (ucp_request_check_status(sending_) == UCS_INPROGRESS) return false;
    ucp_request_free(sending_);
  }
  notice_.resize(sizeof own_rank_ + bytes.size());
  std::memcpy(notice_.data(), &own_rank_, sizeof own_rank_);
  std::memcpy(notice_.data() + sizeof own_rank_, bytes.data(), bytes.size());
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;  // so that its handler is given the bytes themselves
  sending_ = ucp_am_send_nbx(endpoint_, static_cast<unsigned>(words), nullptr, 0, notice_.data(),
                             notice_.size(), &param);
  return true;
}

void Peer::throw_failed(ucs_status_t status) const {
  const std::string reason = lost_.empty() ? ucs_status_string(status) : lost_;
  if (lost_.empty() && !means_lost(status))
    throw Error(
        ErrorKind::system,
        concat("UCX: a message between ranks ", own_rank_, " and ", rank_, " failed: ", reason),
        {own_rank_, rank_});
  throw Error(ErrorKind::peer_failed, concat("rank ", rank_, " is gone: ", reason),
              {own_rank_, rank_});
}

void Peer::on_error(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  std::string& lost = static_cast<Peer*>(peer)->lost_;
  if (lost.empty()) lost = concat("UCX reports: ", ucs_status_string(status));
}

}  // namespace ringspan::comm::ucx
