// SPDX-License-Identifier: Apache-2.0
// The higher machine calls, with the secret of whom it wants and its own number; the lower one
// answers with the caller's secret; the caller takes one of those who have answered, and says so.
#include "comm/transports/streams/rendezvous.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <random>
#include <string>

#include "comm/error.hpp"
#include "comm/transports/diagnosis/clock.hpp"

namespace ringspan::comm::streams {
namespace {

using Address = Contact::Address;
using Secret = std::array<std::uint64_t, 2>;

constexpr int kLook = 10;  // milliseconds

struct Greeting {
  Secret secret;  // of the callee
  std::int64_t caller;
};

[[noreturn]] void fail(const char* call) {
  throw Error(ErrorKind::system, concat("relay: ", call, ": ", std::strerror(errno)));
}

Secret new_secret() {
  std::random_device random;
  const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
  return {word(), word()};
}

Address address_of(const sockaddr* given, std::uint16_t port) {
  Address address;
  const bool is_6 = given->sa_family == AF_INET6;
  address.length = is_6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(address.bytes.data(), given, address.length);
  if (is_6) {
    reinterpret_cast<sockaddr_in6*>(address.bytes.data())->sin6_port = port;
  } else {
    reinterpret_cast<sockaddr_in*>(address.bytes.data())->sin_port = port;
  }
  return address;
}

const sockaddr* as_sockaddr(const Address& address) {
  return reinterpret_cast<const sockaddr*>(address.bytes.data());
}

std::string text(const Address& address) {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  getnameinfo(as_sockaddr(address), address.length, host, sizeof(host), port, sizeof(port),
              NI_NUMERICHOST | NI_NUMERICSERV);
  return concat(host, " port ", port);
}

/// Of that family, up, and either of the loopback or not.
bool fits(const ifaddrs& interface, int family, bool loopback) {
  const sockaddr* const address = interface.ifa_addr;
  if (!address || address->sa_family != family || !(interface.ifa_flags & IFF_UP)) return false;
  if (((interface.ifa_flags & IFF_LOOPBACK) != 0) != loopback) return false;
  return family == AF_INET ||  // those of a link alone mean nothing elsewhere
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

void add_own_addresses(Contact& contact, bool with_6, std::uint16_t port) {
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) fail("getifaddrs");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(interfaces, freeifaddrs);
  for (const bool loopback : {false, true}) {
    for (const int family : {AF_INET, AF_INET6}) {
      for (const ifaddrs* at = interfaces; at; at = at->ifa_next) {
        const bool wanted = (family == AF_INET || with_6) && fits(*at, family, loopback);
        if (wanted && contact.count < Contact::kMost)
          contact.addresses[contact.count++] = address_of(at->ifa_addr, port);
      }
    }
    if (contact.count > 0) return;
  }
}

/// A connection that may become a link.
class Call {
 public:
  /// Calls `machine`.
  Call(int machine, const Address& address)
      : machine_(machine),
        socket_(socket(as_sockaddr(address)->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                       0)) {
    over_ = connect(socket_.descriptor(), as_sockaddr(address), address.length) != 0 &&
            errno != EINPROGRESS;
  }
  /// Is called.
  explicit Call(Socket socket) : socket_(std::move(socket)), connected_(true) {}

  bool over() const { return over_; }
  int machine() const { return machine_; }
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
  int machine_ = -1;  // not said yet
  Socket socket_;
  bool connected_ = false, over_ = false;
  std::vector<std::byte> heard_;
};

using Links = std::vector<std::unique_ptr<Link>>;

/// Goes on with a call; false once it is of no more use.
bool advance(Call& call, Links& links, const std::vector<Contact>& contacts, int own) {
  const bool calls = call.machine() >= 0 && call.machine() < own;
  const bool agreed = calls ? call.answered(contacts, own) : call.taken(contacts, own);
  if (!agreed) return !call.over();
  if (links[call.machine()]) return false;
  if (calls) call.send('x');
  if (!call.over()) links[call.machine()] = std::make_unique<Link>(call.take_socket());
  return false;
}

Error not_connected(const Machines& machines, int own, const Links& links,
                    const std::vector<Contact>& contacts, double deadline) {
  std::vector<std::string> missing;
  for (int machine = 0; machine < machines.size(); ++machine) {
    if (machine == own || links[machine]) continue;
    const auto& [secret, addresses, count] = contacts[std::min(machine, own)];
    const std::vector<Address> called(addresses.begin(), addresses.begin() + count);
    missing.push_back(concat(machines.host(machine), " (",
                             machine < own ? "called at " : "to call here at ",
                             name_list(called, text), ")"));
  }
  return Error(ErrorKind::timeout,
               concat("relay: ", machines.host(own), " has no connection within ", deadline,
                      " s with ", name_list(missing)));
}

}  // namespace

void Rendezvous::listen(int family) {
  listener_ = Socket(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (listener_.descriptor() < 0) return;
  const int off = 0;
  if (family == AF_INET6)
    setsockopt(listener_.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  sockaddr_in6 any{};  // whose other fields are zero, as those of sockaddr_in
  any.sin6_family = static_cast<sa_family_t>(family);
  socklen_t length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  if (bind(listener_.descriptor(), address, length) != 0 ||
      ::listen(listener_.descriptor(), SOMAXCONN) != 0 ||
      getsockname(listener_.descriptor(), address, &length) != 0) {
    listener_ = {};
    return;
  }
  add_own_addresses(contact_, family == AF_INET6, any.sin6_port);  // where sockaddr_in has its own
}

Rendezvous::Rendezvous() {
  contact_.secret = new_secret();
  for (const int family : {AF_INET6, AF_INET})  // the first takes both, where the kernel has it
    if (listener_.descriptor() < 0) listen(family);
  if (listener_.descriptor() < 0) fail("listen");
}

Links Rendezvous::meet(const Machines& machines, int own, const std::vector<Contact>& contacts,
                       double deadline) {
  Links links(machines.size());
  std::vector<Call> calls;
  for (int machine = 0; machine < own; ++machine)
    for (std::uint32_t i = 0; i < contacts[machine].count; ++i)
      calls.emplace_back(machine, contacts[machine].addresses[i]);
  diagnosis::Patience patience;
  while (std::count(links.begin(), links.end(), nullptr) > 1) {
    if (patience.seconds_since_change(0) > deadline)
      throw not_connected(machines, own, links, contacts, deadline);
    std::vector<pollfd> polled{{listener_.descriptor(), POLLIN, 0}};
    for (const Call& call : calls) polled.push_back(call.polled());
    poll(polled.data(), polled.size(), kLook);
    for (;;) {
      Socket caller(
          accept4(listener_.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (caller.descriptor() < 0) break;
      calls.emplace_back(std::move(caller));
    }
    const auto is_over = [&](Call& call) { return !advance(call, links, contacts, own); };
    calls.erase(std::remove_if(calls.begin(), calls.end(), is_over), calls.end());
  }
  return links;
}

}  // namespace ringspan::comm::streams
