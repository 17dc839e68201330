// SPDX-License-Identifier: Apache-2.0
// Whether the simulation engine is configured as it must be is found out before it is used.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "comm/transports/simulated/platform.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace simulated_engine_test {

using Flags = std::vector<const char*>;

/// In a process of its own: says why an engine configured so is refused, and ends with status 3.
void configure(const Flags& flags) {
  try {
    simulated::Platform::of(test::plain_cluster(), flags);
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::exit(error.kind() == ErrorKind::not_available ? 3 : 1);
  }
  std::exit(0);
}

TEST(SimulatedEngineTest, IsRefusedIfItsFlagsDidNotTake) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto all = simulated::engine_flags();
  const auto without = [&](std::string_view name) {
    Flags flags;
    for (const char* flag : all)
      if (!std::string_view(flag).starts_with(name)) flags.push_back(flag);
    EXPECT_EQ(flags.size() + 1, all.size()) << name;
    return flags;
  };
  const Flags no_model = without("network/model"),
              no_crosstraffic = without("network/crosstraffic");
  const auto refused = testing::ExitedWithCode(3);
  const char* const why = "flow [0-9] of the check at start ended at .*does not share links as";
  EXPECT_EXIT(configure({all.begin(), all.end()}), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(configure({}), refused, why);
  EXPECT_EXIT(configure(no_model), refused, why);
  EXPECT_EXIT(configure(no_crosstraffic), refused, why);
}

}  // namespace simulated_engine_test
}  // namespace ringspan::comm
