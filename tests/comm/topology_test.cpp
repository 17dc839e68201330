// SPDX-License-Identifier: Apache-2.0
#include "comm/topology.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <thread>

namespace ringspan::comm {
namespace {

/// Where a thread that is bound to these cores finds itself.
Nearby bound_to(std::initializer_list<int> cores) {
  Nearby result;
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) ADD_FAILURE() << "cannot bind";
    result = nearby();
  }).join();
  return result;
}

// hwloc takes this machine to have two domains of one core. It reads that once per process.
TEST(TopologyTest, FindsTheNumaDomainThatAThreadIsBoundTo) {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  if (!CPU_ISSET(0, &allowed) || !CPU_ISSET(1, &allowed)) GTEST_SKIP() << "needs cores 0 and 1";
  setenv("HWLOC_SYNTHETIC", "numa:2 pu:1", 1);
  setenv("HWLOC_THISSYSTEM", "1", 1);
  EXPECT_EQ(bound_to({0}).numa_domain, 0);
  EXPECT_EQ(bound_to({1}).numa_domain, 1);
  EXPECT_EQ(bound_to({0, 1}).numa_domain, 0);  // of both: of none
  EXPECT_EQ(bound_to({1}).adapters, 0u);
}

}  // namespace
}  // namespace ringspan::comm
