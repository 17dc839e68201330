// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bench/command.hpp"

namespace ringspan::bench {

/// `ringspan plan`, and what its JSON says.
class PlanCommandTest : public CommandTest {
 protected:
  using Json = nlohmann::json;

  Json plan(std::vector<std::string> words, int status = 0) const {
    words.insert(words.begin(), "plan");
    words.push_back("--json");
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    return Json::parse(outcome.out);
  }

  static Json best(const Json& plan) { return plan.at("candidates").at(0); }

  /// Why the best is.
  static std::string why(const Json& plan) {
    std::string sentences;
    for (const std::string sentence : plan.at("why")) sentences += sentence + "\n";
    return sentences;
  }

  /// Why another way is not the best.
  static std::string why_not(const Json& plan, const std::string& what) {
    for (const Json& other : plan.at("not_the_best")) {
      if (other.at("what") == what) return other.at("why");
    }
    return "";
  }
};

}  // namespace ringspan::bench
