// SPDX-License-Identifier: Apache-2.0
// What SimGrid is configured to, and why: its fluid model CM02 shares links max-min fairly only
// among flows of equal latency, so links have none, and whoever starts a flow delays it instead;
// acknowledgements that would slow the opposite direction and TCP windows are off. Flags that do
// not take are found by closed forms before anything is simulated. Activities are started in
// callbacks, where no actor owns them and needs to wait for them.
#include "comm/transports/simulated/platform.hpp"

#include <cxxabi.h>
#include <xbt/log.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/kernel/resource/NetworkModelIntf.hpp>
#include <simgrid/s4u.hpp>
#include <utility>

#include "comm/error.hpp"

namespace ringspan::comm::simulated {
namespace {

namespace s4u = simgrid::s4u;

/// The C++ runtime keeps the exceptions in flight per thread. Actors share one, so each puts its
/// own aside while others run.
class ExceptionsAside {
 public:
  ExceptionsAside() { swap(); }
  ~ExceptionsAside() { swap(); }
  ExceptionsAside(const ExceptionsAside&) = delete;
  ExceptionsAside& operator=(const ExceptionsAside&) = delete;

 private:
  /// What the ABI says __cxa_get_globals() points to.
  struct Exceptions {
    void* caught;
    unsigned int uncaught;
  };

  void swap() {
    Exceptions current{};
    void* const globals = abi::__cxa_get_globals();
    std::memcpy(&current, globals, sizeof current);
    std::memcpy(globals, &aside_, sizeof aside_);
    aside_ = current;
  }

  Exceptions aside_{};
};

s4u::Link* add_link(s4u::NetZone& zone, const std::string& name, double bytes_per_second) {
  return zone.create_link(name, bytes_per_second)->set_latency(0);
}

s4u::Host* add_host(s4u::NetZone& zone, const std::string& name, const std::vector<s4u::Link*>& out,
                    const std::vector<s4u::Link*>& in) {
  const auto route = [](const std::vector<s4u::Link*>& links) {
    std::vector<s4u::LinkInRoute> result;
    for (s4u::Link* link : links) result.emplace_back(link);
    return result;
  };
  s4u::Host* host = zone.create_host(name, 1.0);
  zone.add_route(host->get_netpoint(), nullptr, nullptr, nullptr, route(out), false);
  zone.add_route(nullptr, host->get_netpoint(), nullptr, nullptr, route(in), false);
  return host;
}

constexpr double kCheckedRate = 100e9;  // bytes per second, of the links of the closed forms
constexpr double kCheckedBytes = 1e6;

std::vector<s4u::Host*> add_checked_hosts(s4u::NetZone& zone) {
  s4u::Link* shared = add_link(zone, "check.shared", kCheckedRate);
  s4u::Link* back = add_link(zone, "check.back", kCheckedRate);
  s4u::Link* wide = add_link(zone, "check.wide", 10 * kCheckedRate);
  return {add_host(zone, "check.0", {shared}, {wide}), add_host(zone, "check.1", {back}, {wide})};
}

}  // namespace

std::span<const char* const> engine_flags() {
  static constexpr const char* kFlags[] = {"network/model:CM02", "network/crosstraffic:0",
                                           "network/TCP-gamma:0", "surf/precision:1e-12",
                                           "contexts/stack-size:1024"};
  return kFlags;
}

Platform& Platform::of(const Cluster& cluster, std::span<const char* const> flags) {
  static Platform* const platform = new Platform(cluster, flags);
  if (!platform->broken_.empty()) throw Error(ErrorKind::not_available, platform->broken_);
  if (!platform->on_own_thread())
    throw Error(ErrorKind::not_available, "simulated: a process simulates in one thread only");
  if (!(platform->cluster_ == cluster))
    throw Error(ErrorKind::not_available,
                concat("simulated: this process has simulated cluster '", platform->cluster_.name,
                       "'; '", cluster.name, "' or other values of it need another process"));
  if (platform->left_ > 0)
    throw Error(ErrorKind::not_available, "simulated: a rank cannot launch another simulation");
  return *platform;
}

Platform::~Platform() = default;

Platform::Platform(const Cluster& cluster, std::span<const char* const> flags)
    : cluster_(cluster), wiring_(cluster), thread_(std::this_thread::get_id()) {
  static char name[] = "ringspan";
  static char* arguments[] = {name, nullptr};
  int count = 1;
  xbt_log_control_set("xbt_cfg.thresh:warning");  // or every flag is announced
  engine_ = new s4u::Engine(&count, arguments);
  for (const char* flag : flags) s4u::Engine::set_config(flag);
  s4u::NetZone* zone = s4u::create_star_zone("cluster");
  add_hosts(*zone);
  const std::vector<s4u::Host*> checked = add_checked_hosts(*zone);
  zone->seal();
  network_ = dynamic_cast<simgrid::kernel::resource::Model*>(zone->get_network_model());
  s4u::Activity::on_completion_cb([this](const s4u::Activity& activity) {
    if (const Call* const arrived = activity.get_data<Call>()) completed(activity, *arrived);
  });
  broken_ = network_ ? check_closed_forms(checked)
                     : "simulated: this SimGrid has no network model that takes rate caps";
}

void Platform::add_hosts(s4u::NetZone& zone) {
  std::vector<s4u::Link*> links;
  for (const Wiring::Link& link : wiring_.links())
    links.push_back(add_link(zone, link.name, link.bytes_per_second));
  const auto all = [&](const std::vector<int>& numbers) {
    std::vector<s4u::Link*> result;
    for (const int link : numbers) result.push_back(links[link]);
    return result;
  };
  for (const Wiring::Port& port : wiring_.ports()) {
    const std::string name = concat("port", hosts_.size());
    hosts_.push_back(port.out.empty() ? nullptr
                                      : add_host(zone, name, all(port.out), all(port.in)));
  }
}

// Two flows that start 1 and 5 us late share a link; of two against each other neither slows the
// other; a cap holds.
std::string Platform::check_closed_forms(const std::vector<s4u::Host*>& hosts) {
  struct Flow {
    void begin() { platform->start_flow(from, to, kCheckedBytes, most_bytes_per_second, arrived); }
    void arrive() { end = platform->now(); }

    Platform* platform;
    double start;  // seconds
    s4u::Host *from, *to;
    double most_bytes_per_second;
    double wanted, end = 0;  // seconds
    Call arrived = {};
  };
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const double alone = kCheckedBytes / kCheckedRate;
  Flow flows[] = {{this, 1e-6, hosts[0], hosts[1], infinite, 2 * alone - 3e-6},
                  {this, 5e-6, hosts[0], hosts[1], infinite, 2 * alone + 1e-6},
                  {this, 5e-3, hosts[0], hosts[1], infinite, 5e-3 + alone},
                  {this, 5e-3, hosts[1], hosts[0], infinite, 5e-3 + alone},
                  {this, 9e-3, hosts[0], hosts[1], kCheckedRate / 10, 9e-3 + 10 * alone}};
  for (Flow& flow : flows) {
    flow.arrived = Call::to<&Flow::arrive>(&flow);
    at(flow.start, Call::to<&Flow::begin>(&flow));
  }
  engine_->run();
  for (const Flow& flow : flows) {
    if (std::abs(flow.end - flow.wanted) <= 1e-6 * flow.wanted) continue;
    return concat("simulated: flow ", &flow - flows, " of the check at start ended at ", flow.end,
                  " s instead of ", flow.wanted,
                  " s; this SimGrid does not share links as it is told to");
  }
  return {};
}

double Platform::clock() { return s4u::Engine::get_clock(); }

Platform::Timer* Platform::at(double time, Call call) {
  ++active_;
  return Timer::set(time, [this, call] {
    call();
    ended();
  });
}

void Platform::cancel(Timer* timer) {
  timer->remove();
  --active_;
}

void Platform::start_flow(s4u::Host* from, s4u::Host* to, double bytes,
                          double most_bytes_per_second, const Call& arrived) {
  ++active_;
  const s4u::CommPtr flow = s4u::Comm::sendto_init();
  flow->set_data(const_cast<Call*>(&arrived));
  flow->set_payload_size(std::max<std::int64_t>(std::llround(bytes), 1));
  flow->set_source(from);
  flow->set_destination(to);  // starts it
  flow->add_ref();            // until it is completed
  // Comm::set_rate is for messages through mailboxes.
  if (std::isfinite(most_bytes_per_second))
    network_->get_started_action_set()->back().set_bound(most_bytes_per_second);
}

// The library still reads the flow after its callback.
void Platform::completed(const s4u::Activity& flow, const Call& arrived) {
  last_flow_ = s4u::ActivityPtr(const_cast<s4u::Activity*>(&flow), /*add_ref=*/false);
  arrived();
  ended();
}

void Platform::run(int count, const std::function<void(int)>& body,
                   const std::function<void()>& stuck) {
  stuck_ = stuck;
  suspended_.assign(count, false);
  left_ = count;
  active_ += count;
  for (int actor = 0; actor < count; ++actor) {
    actors_.push_back(s4u::Actor::create(concat("rank ", actor), hosts_[0], [this, &body, actor] {
                        body(actor);
                        --left_;
                        ended();
                      }).get());
  }
  engine_->run();
  actors_.clear();
}

void Platform::resume(int actor) {
  if (!suspended_[actor]) return;
  suspended_[actor] = false;
  ++active_;
  actors_[actor]->resume();
}

void Platform::suspend(int actor) {
  suspended_[actor] = true;
  ended();
  const ExceptionsAside aside;
  s4u::this_actor::suspend();
}

void Platform::sleep_until(double time) {
  const ExceptionsAside aside;
  s4u::this_actor::sleep_until(time);
}

void Platform::ended() {
  if (--active_ == 0 && left_ > 0 && stuck_) stuck_();
}

}  // namespace ringspan::comm::simulated
