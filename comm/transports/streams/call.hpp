// SPDX-License-Identifier: Apache-2.0
// How relays meet, for rendezvous.cpp alone. The higher machine calls, with the secret of whom it
// wants and its own number; the lower one answers with the caller's secret; the caller takes one of
// those who have answered, and says so.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "comm/error.hpp"
#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/streams/rendezvous.hpp"

namespace ringspan::comm::streams {

using Secret = std::array<std::uint64_t, 2>;

struct Callee {
  int machine;
  std::uint32_t address;  // of its contact
};

struct Greeting {
  Secret secret;  // of the callee
  std::int64_t caller;
};

/// Of a call of the system: throws what errno says.
[[noreturn]] inline void fail(const char* call) {
  throw Error(ErrorKind::system, concat("relay: ", call, ": ", std::strerror(errno)));
}

/// After socket() or accept4(): throws if there are no more descriptors.
inline void require_descriptors(const char* call) {
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) fail(call);
}

inline const sockaddr* as_sockaddr(const Contact::Address& address) {
  return reinterpret_cast<const sockaddr*>(address.bytes.data());
}

/// A connection that may become a link.
class Call {
 public:
  /// Calls.
  Call(const Callee& callee, const Contact::Address& address)
      : callee_(callee),
        machine_(callee.machine),
        socket_(socket(as_sockaddr(address)->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                       0)) {
    if (socket_.descriptor() < 0) require_descriptors("socket");
    over_ = connect(socket_.descriptor(), as_sockaddr(address), address.length) != 0 &&
            errno != EINPROGRESS;
  }
  /// Is called.
  explicit Call(Socket socket) : socket_(std::move(socket)), connected_(true) {}

  bool over() const { return over_; }
  int machine() const { return machine_; }
  const std::optional<Callee>& callee() const { return callee_; }
  std::int64_t since() const { return since_; }
  pollfd polled() const {
    return {socket_.descriptor(), static_cast<short>(connected_ ? POLLIN : POLLOUT), 0};
  }
  Socket take_socket() { return std::move(socket_); }

  template <typename Value>
  void send(const Value& value) {
    const auto size = static_cast<ssize_t>(sizeof(value));
    over_ = ::send(socket_.descriptor(), &value, sizeof(value), MSG_NOSIGNAL) != size || over_;
  }

  /// Once all of it is there, which is asked for until it is.
  template <typename Value>
  std::optional<Value> receive() {
    if (!over_ && heard_.size() < sizeof(Value)) {
      std::array<std::byte, sizeof(Value)> part;
      const ssize_t count =
          recv(socket_.descriptor(), part.data(), sizeof(Value) - heard_.size(), 0);
      over_ = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
      if (count > 0) heard_.insert(heard_.end(), part.begin(), part.begin() + count);
    }
    if (heard_.size() < sizeof(Value)) return {};
    Value value;
    std::memcpy(&value, heard_.data(), sizeof(Value));
    heard_.clear();
    return value;
  }

  /// Whether the other end has answered, and is whom it was to be.
  bool answered(const std::vector<Contact>& contacts, int own) {
    if (pollfd at = polled(); !connected_ && poll(&at, 1, 0) == 1) {
      connected_ = true;
      send(Greeting{contacts[machine_].secret, own});
    }
    const auto secret = connected_ ? receive<Secret>() : std::nullopt;
    if (secret && *secret != contacts[own].secret) over_ = true;
    return secret && !over_;
  }

  /// Whether the caller, which is one of those that may call, has taken this connection.
  bool taken(const std::vector<Contact>& contacts, int own) {
    if (machine_ >= 0) return receive<char>().has_value();
    const auto greeting = receive<Greeting>();
    if (!greeting) return false;
    over_ = greeting->secret != contacts[own].secret || greeting->caller <= own ||
            greeting->caller >= static_cast<std::int64_t>(contacts.size());
    if (over_) return false;
    machine_ = static_cast<int>(greeting->caller);
    send(contacts[machine_].secret);
    return false;
  }

 private:
  std::optional<Callee> callee_;  // whom this calls
  int machine_ = -1;              // not said yet
  Socket socket_;
  std::int64_t since_ = diagnosis::steady_now();
  bool connected_ = false, over_ = false;
  std::vector<std::byte> heard_;
};

}  // namespace ringspan::comm::streams
