// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/costs_file.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "comm/error.hpp"
#include "tests/bench/file_limit.hpp"

namespace ringspan::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const ProbedCosts kSlowNetwork{
    "mpi", 6, 3, 2, {{50e-6, 20e-6, 8e-9}, {2e-6, 1e-6, 0.5e-9}, 0.2e-9}};

class CostsFileTest : public testing::Test {
 protected:
  ~CostsFileTest() override { std::filesystem::remove(file_); }

  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }

  const std::string file_ =
      std::filesystem::temp_directory_path() / concat("ringspan_costs_", getpid(), ".json");
};

TEST_F(CostsFileTest, HoldsOneEntryForTheSameRanks) {
  ProbedCosts changed = kSlowNetwork, others = kSlowNetwork;
  changed.costs.inter_node.latency = 7e-5;
  others.groups = 2;
  for (const ProbedCosts& probed : {kSlowNetwork, others, changed}) store_costs(file_, probed);
  EXPECT_THAT(text(), AllOf(HasSubstr("\"groups\": 1"), HasSubstr("\"groups\": 2"),
                            HasSubstr("\"latency_s\": 5e-05"), HasSubstr("\"latency_s\": 7e-05")));
  store_costs(file_, kSlowNetwork);
  EXPECT_THAT(text(), Not(HasSubstr("\"latency_s\": 7e-05")));
}

TEST_F(CostsFileTest, LeavesOutLinksThatAreNotThere) {
  store_costs(file_, {"threads", 2, 1, 2, kSlowNetwork.costs});
  EXPECT_THAT(text(), AllOf(HasSubstr("intra_node"), Not(HasSubstr("inter_node"))));
}

TEST_F(CostsFileTest, SaysOfWhichSizesHierarchicalIsTheFaster) {
  ProbedCosts probed = kSlowNetwork;
  probed.costs.inter_node.per_long_message = 1e-3;
  store_costs(file_, probed);
  EXPECT_THAT(text(), AllOf(HasSubstr("\"per_message_64k_s\": 0.00102"), HasSubstr("\"from\": 0.0"),
                            HasSubstr("\"from\": 65536.0")));
}

TEST_F(CostsFileTest, KeepsTheTrialsThatDecide) {
  ProbedCosts probed = kSlowNetwork;
  probed.costs.trials = {3, 2, 1, {{{512, 2e-3, 3e-3}}}};
  store_costs(file_, probed);
  EXPECT_THAT(text(),
              AllOf(HasSubstr("\"bytes_per_pair\": 512.0"), HasSubstr("\"direct_s\": 0.002"),
                    HasSubstr("\"hierarchical_s\": 0.003")));
  EXPECT_THAT(summary(probed), HasSubstr("by trials"));
}

TEST_F(CostsFileTest, RefusesFilesOfOtherThings) {
  for (const char* other : {"{}", "a,b\n1,2\n", "[1,"}) {
    std::ofstream(file_) << other;
    EXPECT_THROW(store_costs(file_, kSlowNetwork), Error) << other;
    EXPECT_EQ(text(), other);
  }
  EXPECT_THROW(require_costs_file("/nowhere/costs.json"), Error);
}

TEST_F(CostsFileTest, KeepsWhatItHoldsOnAFullDisk) {
  store_costs(file_, kSlowNetwork);
  const std::string before = text();
  const FileLimit full(static_cast<rlim_t>(before.size()));
  EXPECT_THROW(store_costs(file_, {"threads", 2, 1, 2, kSlowNetwork.costs}), Error);
  EXPECT_EQ(text(), before);
}

TEST(SummaryTest, SaysWhereHierarchicalPays) {
  EXPECT_THAT(summary(kSlowNetwork), HasSubstr("hierarchical all-to-alls pay below"));
  ProbedCosts probed = kSlowNetwork;
  probed.costs.inter_node = probed.costs.intra_node;
  probed.nodes = 2;
  EXPECT_THAT(summary(probed), HasSubstr("hierarchical all-to-alls pay at no size"));
  probed.costs = {{0, 1e-6, 1e-9}, {}, 0};
  EXPECT_THAT(summary(probed), HasSubstr("hierarchical all-to-alls pay at every size"));
}

}  // namespace
}  // namespace ringspan::bench
