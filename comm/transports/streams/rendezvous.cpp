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
#include <deque>
#include <optional>
#include <random>
#include <string>

#include "comm/error.hpp"
#include "comm/transports/diagnosis/board.hpp"
#include "comm/transports/diagnosis/clock.hpp"

namespace ringspan::comm::streams {
namespace {

using Address = Contact::Address;
using Secret = std::array<std::uint64_t, 2>;

constexpr int kLook = 10;                   // milliseconds
constexpr std::ptrdiff_t kMostCalls = 256;  // made at once, for descriptors are scarce
constexpr std::uint32_t kNamed = 2;         // addresses of each machine

struct Callee {
  int machine;
  std::uint32_t address;  // of its contact
};

struct Greeting {
  Secret secret;  // of the callee
  std::int64_t caller;
};

[[noreturn]] void fail(const char* call) {
  throw Error(ErrorKind::system, concat("relay: ", call, ": ", std::strerror(errno)));
}

/// After socket() or accept4().
void require_descriptors(const char* call) {
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) fail(call);
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

std::string some(const Contact& contact) {
  const auto first = contact.addresses.begin();
  return name_list(std::vector<Address>(first, first + std::min(contact.count, kNamed)), text);
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
  /// Calls.
  Call(const Callee& callee, const Address& address)
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

using Links = std::vector<std::unique_ptr<Link>>;

/// Goes on with a call; false once it is of no more use.
bool advance(Call& call, Links& links, const std::vector<Contact>& contacts, int own) {
  if (call.machine() >= 0 && links[call.machine()]) return false;  // by another call
  const bool agreed = call.callee() ? call.answered(contacts, own) : call.taken(contacts, own);
  if (!agreed) return !call.over();
  if (links[call.machine()]) return false;
  if (call.callee()) call.send('x');
  if (!call.over()) links[call.machine()] = std::make_unique<Link>(call.take_socket());
  return false;
}

Error not_connected(const Machines& machines, int own, const Links& links,
                    const std::vector<Contact>& contacts, double deadline) {
  std::vector<std::string> missing, called;
  for (int machine = 0; machine < machines.size(); ++machine) {
    if (machine == own || links[machine]) continue;
    missing.push_back(machines.host(machine));
    if (machine < own) called.push_back(concat("called at ", some(contacts[machine])));
  }
  if (called.size() < missing.size())
    called.push_back(concat("to call here at ", some(contacts[own])));
  return Error(ErrorKind::timeout,  // the names first, for long texts are cut off
               concat("relay: ", machines.host(own), " has no connection within ", deadline,
                      " s with ", name_list(missing), " (", name_list(called), ")"));
}

/// Each address of each lower machine, by turns: some may lead nowhere.
std::deque<Callee> all_callees(const std::vector<Contact>& contacts, int own) {
  std::deque<Callee> callees;
  for (std::uint32_t address = 0; address < Contact::kMost; ++address)
    for (int machine = 0; machine < own; ++machine)
      if (address < contacts[machine].count) callees.push_back({machine, address});
  return callees;
}

/// Calls as many as may be at once. Who does not answer within `patience` seconds is called again
/// when the others have been.
void call(std::vector<Call>& calls, std::deque<Callee>& callees, const Links& links,
          const std::vector<Contact>& contacts, double patience) {
  if (callees.empty()) return;
  const auto gives_up = [&](const Call& call) {
    const bool late = call.callee() && diagnosis::seconds_since(call.since()) > patience;
    if (late) callees.push_back(*call.callee());
    return late;
  };
  calls.erase(std::remove_if(calls.begin(), calls.end(), gives_up), calls.end());
  auto made = std::count_if(calls.begin(), calls.end(),
                            [](const Call& call) { return call.callee().has_value(); });
  for (; !callees.empty() && made < kMostCalls; callees.pop_front()) {
    const Callee& callee = callees.front();
    if (links[callee.machine]) continue;
    calls.emplace_back(callee, contacts[callee.machine].addresses[callee.address]);
    ++made;
  }
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
  std::deque<Callee> callees = all_callees(contacts, own);
  const auto rounds = static_cast<double>(2 + callees.size() / kMostCalls);
  diagnosis::Patience patience;
  while (std::count(links.begin(), links.end(), nullptr) > 1) {
    if (patience.seconds_since_change(0) > deadline)
      throw not_connected(machines, own, links, contacts, deadline);
    call(calls, callees, links, contacts, deadline / rounds);
    std::vector<pollfd> polled{{listener_.descriptor(), POLLIN, 0}};
    for (const Call& call : calls) polled.push_back(call.polled());
    poll(polled.data(), polled.size(), kLook);
    for (;;) {
      Socket caller(
          accept4(listener_.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (caller.descriptor() < 0) {
        require_descriptors("accept4");
        break;
      }
      calls.emplace_back(std::move(caller));
    }
    const auto is_over = [&](Call& call) { return !advance(call, links, contacts, own); };
    calls.erase(std::remove_if(calls.begin(), calls.end(), is_over), calls.end());
  }
  return links;
}

}  // namespace ringspan::comm::streams
