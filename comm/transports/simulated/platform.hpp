// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <simgrid/forward.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/cluster.hpp"
#include "comm/transports/simulated/wiring.hpp"

namespace ringspan::comm::simulated {

/// A member function to call later. There are millions, so it is smaller than std::function.
struct Call {
  template <auto member, typename Object>
  static Call to(Object* object) {
    return {[](void* called) { (static_cast<Object*>(called)->*member)(); }, object};
  }
  void operator()() const { run(object); }

  void (*run)(void*);
  void* object;
};

/// What the simulation engine is configured to, for platform.cpp's reasons.
std::span<const char* const> engine_flags();

/// The simulation engine of this process, which has one, for one cluster, used by one thread: the
/// clock, timers, flows that share links, and actors that run in turns. Timers and flows call back
/// between the turns of actors. Virtual time goes on from one run to the next.
class Platform {
 public:
  using Timer = simgrid::kernel::timer::Timer;

  /// Throws not_available if the process has one of another cluster, or of another thread, or if
  /// the engine does not share links as it is to. `flags`: for tests of this check alone.
  static Platform& of(const Cluster& cluster, std::span<const char* const> flags = engine_flags());
  ~Platform();

  bool on_own_thread() const { return thread_ == std::this_thread::get_id(); }
  static double clock();  // of the process
  double now() const { return clock(); }

  /// Calls back at that time, unless it is cancelled before.
  Timer* at(double time, Call call);
  void cancel(Timer* timer);

  const Wiring& wiring() const { return wiring_; }

  /// Moves more than zero bytes between two ports, no faster than that. `arrived` stays where it is
  /// until it is called.
  void flow(int from, int to, double bytes, double most_bytes_per_second, const Call& arrived) {
    start_flow(hosts_[from], hosts_[to], bytes, most_bytes_per_second, arrived);
  }

  /// Runs actors 0 to count - 1 and all that they cause, to the end. `stuck` is called whenever
  /// actors are left, all of which are suspended, and nothing else will happen: it sees to it that
  /// something does.
  void run(int count, const std::function<void(int)>& body, const std::function<void()>& stuck);

  void resume(int actor);  // called back only

  // By the actor whose turn it is:
  void suspend(int actor);
  void sleep_until(double time);

 private:
  Platform(const Cluster& cluster, std::span<const char* const> flags);
  void add_hosts(simgrid::s4u::NetZone& zone);
  std::string check_closed_forms(const std::vector<simgrid::s4u::Host*>& hosts);
  void start_flow(simgrid::s4u::Host* from, simgrid::s4u::Host* to, double bytes,
                  double most_bytes_per_second, const Call& arrived);
  void completed(const simgrid::s4u::Activity& flow, const Call& arrived);
  void ended();

  const Cluster cluster_;
  const Wiring wiring_;
  const std::thread::id thread_;
  simgrid::s4u::Engine* engine_;  // never goes: the library cannot start anew
  simgrid::kernel::resource::Model* network_;
  std::string broken_;                        // why nothing can be simulated, if so
  std::vector<simgrid::s4u::Host*> hosts_;    // [port]; null where that has no links
  std::vector<simgrid::s4u::Actor*> actors_;  // of the current run
  std::vector<bool> suspended_;               // [actor]
  std::int64_t active_ = 0;                   // actors not suspended, timers and flows
  int left_ = 0;                              // actors that have not ended
  std::function<void()> stuck_;
  simgrid::s4u::ActivityPtr last_flow_;  // that was completed
};

}  // namespace ringspan::comm::simulated
