// SPDX-License-Identifier: Apache-2.0
// Why a plan has no mix of a kind; nothing is simulated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "bench/ask/cluster_file.hpp"
#include "bench/plan/reasons.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class ReasonsTest : public testing::Test {
 protected:
  static PlanOptions options(std::int64_t ranks, std::int64_t batch) {
    return {model("llama3-8b"), read_cluster("h100"), ranks, 8192, batch, 80e9};
  }

  /// Of all legal mixes, none of which is known to fit unless `fits` says so.
  static std::string why_not(const PlanOptions& options, const std::string& what,
                             bool fits = false) {
    SearchResult result;
    for (const Mix& mix : mixes(options)) {
      Candidate candidate{mix, {}, {}};
      candidate.fits = fits;
      result.candidates.push_back(candidate);
    }
    EXPECT_FALSE(result.found());
    const Reasons why = reasons(options, result);
    EXPECT_TRUE(why.best.empty());
    for (const RuledOut& other : why.ruled_out) {
      if (other.what == what) return other.why;
    }
    return "";
  }
};

TEST_F(ReasonsTest, TheRuleThatForbidsReplicasIsNamed) {
  EXPECT_EQ(why_not(options(24, 2), "data parallelism"),
            "data 2: groups of 12 GPUs are neither whole nodes of 8 nor an even part of one; the "
            "nearest batch that can be divided is 3");
  EXPECT_THAT(why_not(options(24, 3), "data parallelism"), StartsWith("does not fit"));
  EXPECT_EQ(why_not(options(1, 4), "data parallelism"), "there is one GPU");
}

TEST_F(ReasonsTest, HeadsAreNamedWhereTheyAreTooFew) {
  PlanOptions one_head = options(4, 1);
  one_head.model.heads = one_head.model.kv_heads = 1;
  EXPECT_THAT(why_not(one_head, "Ulysses and ring"), StartsWith("heads 1 < ranks 2: "));
  EXPECT_THAT(why_not(one_head, "Ulysses alone"), StartsWith("heads 1 < ranks 4: "));
  EXPECT_THAT(why_not(one_head, "tensor parallelism"),
              HasSubstr("degree 2: 1 heads are not a multiple of it"));
  one_head.global_batch = 4;  // so that one GPU for each sequence is legal, and two are
  EXPECT_THAT(why_not(one_head, "Ulysses alone"), StartsWith("heads 1 < ranks 2: "));
  EXPECT_THAT(why_not(options(2, 1), "Ulysses and ring"), StartsWith("no two degrees above 1"));
}

TEST_F(ReasonsTest, TensorParallelismSaysWhatItCannotSplit) {
  PlanOptions odd = options(8, 1);
  odd.model.ffn_hidden = 1111;
  EXPECT_THAT(why_not(odd, "tensor parallelism"),
              StartsWith("tensor-parallel degree 2: the MLP's 1111 columns are not a multiple"));
  EXPECT_EQ(why_not(options(3, 1), "tensor parallelism"),
            "tensor-parallel degree 3: it must divide the 3 GPUs of a node that has 8");
}

TEST_F(ReasonsTest, NothingIsPraisedThatWasNotSimulated) {
  EXPECT_EQ(why_not(options(1, 1), "no sequence parallelism", true),
            "one GPU may fit; it was not simulated");
}

}  // namespace
}  // namespace ringspan::bench
