// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "comm/transports/streams/rendezvous.hpp"

namespace ringspan::comm::streams::test {

inline constexpr double kLongest = 20;  // seconds

/// So many processes per host, in turn.
inline std::vector<processes::Seat> seats(const std::vector<int>& per_host) {
  std::vector<processes::Seat> seats;
  for (int host = 0; host < static_cast<int>(per_host.size()); ++host) {
    for (int i = 0; i < per_host[host]; ++i) {
      processes::Seat& seat = seats.emplace_back();
      concat("host", host).copy(seat.host.data(), seat.host.size() - 1);
      seat.machine = {"one kernel"};
      seat.shared_memory = 40 + host;
    }
  }
  return seats;
}

/// All joined with each other, [machine][machine].
inline std::vector<std::vector<std::unique_ptr<Link>>> links(const Machines& machines) {
  std::vector<Rendezvous> points(machines.size());
  std::vector<Contact> contacts;
  for (const Rendezvous& point : points) contacts.push_back(point.contact());
  std::vector<std::vector<std::unique_ptr<Link>>> links(machines.size());
  std::vector<std::thread> threads;
  for (int machine = 0; machine < machines.size(); ++machine)
    threads.emplace_back([&, machine] {
      links[machine] = points[machine].meet(machines, machine, contacts, kLongest);
    });
  for (std::thread& thread : threads) thread.join();
  return links;
}

}  // namespace ringspan::comm::streams::test
