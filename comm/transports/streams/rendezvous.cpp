// SPDX-License-Identifier: Apache-2.0
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
#include "comm/transports/streams/call.hpp"

namespace ringspan::comm::streams {
namespace {

using Address = Contact::Address;

constexpr int kLook = 10;                   // milliseconds
constexpr std::ptrdiff_t kMostCalls = 256;  // made at once, for descriptors are scarce
constexpr std::uint32_t kNamed = 2;         // addresses of each machine

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
