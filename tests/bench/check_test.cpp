// SPDX-License-Identifier: Apache-2.0
#include "bench/oracle/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "bench/ask/mask_text.hpp"
#include "bench/run/rank_run.hpp"
#include "comm/devices/host.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

Point small_point() {
  Point point;
  point.schedule = "ring";
  point.layout = "contiguous";
  point.pass = "both";
  point.kernel = "reference";
  point.sequence_length = 30;
  point.batch = 2;
  point.heads = 4;
  point.kv_heads = 2;
  point.head_dim = 6;
  point.value_dim = 5;
  return point;
}

/// Runs the point on one rank and gives it to `body`.
void computed(const Point& point, const MeasureOptions& options,
              const std::function<void(RankRun&)>& body) {
  comm::launch("threads", {}, [&](const comm::Communicator& world) {
    RankRun run(world, point, options);
    run.run(kOverlapped);
    body(run);
  });
}

TEST(CheckTest, AcceptsWhatTheReferenceComputes) {
  for (const char* mask : {"full", "causal", "window:7:3", "documents:9,0,1,12+causal"}) {
    for (const char* dtype : {"fp64", "fp32", "bf16", "fp16"}) {
      for (const bool special : {false, true}) {
        Point point = small_point();
        point.mask = mask;
        point.dtype = dtype;
        MeasureOptions options;
        options.sinks = special;
        if (special) options.softcap = 2.5;
        if (special) options.softmax_scale = 0.75;
        computed(point, options, [&](RankRun& run) {
          const Deviation deviation = run.check();
          EXPECT_FALSE(deviation.wrong()) << mask << ' ' << dtype << ": " << deviation.text();
          EXPECT_EQ(deviation.rows, run.sampled_rows());
          EXPECT_EQ(deviation.rows, 4 * 12);  // out, dq, dk and dv
          EXPECT_LT(deviation.max_abs_error, std::string(dtype) == "bf16" ? 0.2 : 0.02);
          const Deviation sums = run.check_sums();
          EXPECT_FALSE(sums.wrong()) << mask << ' ' << dtype << ": " << sums.text();
          EXPECT_EQ(sums.bound > 0, !special) << mask << ' ' << dtype;
        });
      }
    }
  }
}

/// Results that the reference computed, to be spoilt.
class SpoiltTest : public testing::Test {
 protected:
  SpoiltTest() {
    const attention::Shard shard{{0, 1, point_.sequence_length}};
    computed(point_, {}, [&](RankRun& run) {
      const CheckedTensors results = run.results();
      const auto keep = [&](attention::Tensor& to, const attention::ConstTensorView& from) {
        to = attention::Tensor(*device_, from.dtype, from.batch, from.tokens, from.heads,
                               from.head_dim);
        kernels_->copy(from, to);
      };
      keep(out_, results.out);
      keep(dq_, results.dq);
      keep(dk_, results.dk);
      keep(dv_, results.dv);
    });
  }

  Deviation check(const attention::Shard& shard = {{0, 1, 30}}) const {
    return check_rows(problem(point_, {}), 1, shard, {out_, dq_, dk_, dv_}, *device_, *kernels_);
  }

  /// Changes one dimension of all rows, so that the sample must meet it.
  static void spoil(const attention::TensorView& tensor,
                    const std::function<float(float)>& change) {
    auto* values = static_cast<float*>(tensor.data);
    for (std::int64_t i = 1; i < tensor.elements(); i += tensor.head_dim) {
      values[i] = change(values[i]);
    }
  }

  const Point point_ = small_point();
  const std::unique_ptr<comm::Device> device_ = comm::make_host_device();
  const std::unique_ptr<attention::Kernels> kernels_ =
      attention::make_kernels("reference", *device_);
  attention::Tensor out_, dq_, dk_, dv_;
};

TEST_F(SpoiltTest, UnspoiltIsRight) { EXPECT_FALSE(check().wrong()) << check().text(); }

TEST_F(SpoiltTest, FindsAWrongValueOfEachTensor) {
  const struct {
    const char* name;
    attention::TensorView tensor;
  } kTensors[] = {{"out of", out_}, {"dq of", dq_}, {"dk of", dk_}, {"dv of", dv_}};
  for (const auto& [name, tensor] : kTensors) {
    spoil(tensor, [](float x) { return x + 1e-3f; });
    const Deviation deviation = check();
    EXPECT_TRUE(deviation.wrong()) << name;
    EXPECT_THAT(deviation.text(), testing::StartsWith(name));
    EXPECT_THAT(deviation.text(), testing::HasSubstr("dimension 1 is"));
    EXPECT_NEAR(deviation.max_abs_error, 1e-3, 1e-4);
    spoil(tensor, [](float x) { return x - 1e-3f; });
  }
}

TEST_F(SpoiltTest, NotANumberIsWrong) {
  spoil(out_, [](float) { return std::numeric_limits<float>::quiet_NaN(); });
  EXPECT_TRUE(check().wrong());
  EXPECT_TRUE(std::isnan(check().max_abs_error));
}

/// Of every length and on several ranks, where no single key can be sampled.
TEST(DvSumTest, IsThatOfTheOutputGradients) {
  Point point = small_point();
  point.mask = "full";
  point.kernel = "cpu";
  point.sequence_length = 2100;
  point.ranks = 3;
  for (const char* dtype : {"fp32", "bf16"}) {
    point.dtype = dtype;
    comm::LaunchOptions options;
    options.ranks = 3;
    comm::launch("threads", options, [&](const comm::Communicator& world) {
      RankRun run(world, point, {});
      run.run(kOverlapped);
      EXPECT_EQ(run.sampled_keys(), 0);
      const Deviation right = run.check_sums();
      EXPECT_FALSE(right.wrong()) << right.text();
      run.run(kCompute);  // without messages: only the rank's own queries count
      const Deviation wrong = run.check_sums();
      EXPECT_TRUE(wrong.wrong()) << wrong.text();
      EXPECT_THAT(wrong.text(), testing::StartsWith("dv summed over all tokens of batch "));
    });
  }
}

/// A steep softmax over two keys leaves one of them with next to nothing, and its dk and dv too.
TEST(CheckTest, AcceptsThatTheCpuKernelsDropNegligibleWeights) {
  Point point = small_point();
  point.mask = "full";
  point.kernel = "cpu";
  point.sequence_length = 2;
  point.heads = point.kv_heads = 8;
  point.head_dim = point.value_dim = 128;
  MeasureOptions options;
  options.softmax_scale = 5;
  computed(point, options, [&](RankRun& run) {
    const attention::ConstTensorView dv = run.results().dv;
    const auto* values = static_cast<const float*>(dv.data);
    EXPECT_GT(std::count(values, values + dv.elements(), 0.0f), dv.head_dim);  // some key's
    const Deviation deviation = run.check();
    EXPECT_FALSE(deviation.wrong()) << deviation.text();
    EXPECT_GT(deviation.bound, 0);
  });
}

TEST_F(SpoiltTest, TokensInAnotherOrderAreWrong) { EXPECT_TRUE(check({{29, -1, 30}}).wrong()); }

TEST_F(SpoiltTest, MissingTokensAreMissed) {
  const Deviation half = check({{0, 1, 15}});
  EXPECT_FALSE(half.wrong());
  EXPECT_LT(half.rows, check().rows);
}

TEST(RowOracleTest, FullyMaskedRowsAreExactlyZero) {
  Point point = small_point();
  point.mask = "documents:9,12";  // nine tokens of padding
  const RowOracle oracle(problem(point, {}), InputValues(1));
  for (const Expected& value : oracle.query_row(0, 0, 25, true).out) {
    EXPECT_EQ(value.value, 0);
    EXPECT_EQ(value.bound, 0);
  }
  for (const Expected& value : oracle.key_row(0, 0, 25).dk) EXPECT_EQ(value.value, 0);
}

TEST(RowOracleTest, KeyRowsOfLongSequencesAreLeftOutWhereTheyCostTooMuch) {
  Point point = small_point();
  point.sequence_length = 1 << 20;
  point.mask = "full";
  const CheckedTensors backward{{}, attention::ConstTensorView{this}, {}, {}};
  EXPECT_EQ(sampled_rows(problem(point, {}), 1, backward), 2 * 12);
  point.mask = "causal";  // few queries see the last key
  EXPECT_GT(sampled_rows(problem(point, {}), 1, backward), 2 * 12);
}

TEST(CombinedTest, TakesTheFurthestStrayAndTheLargestError) {
  Deviation a, b;
  a.got = 3, a.expected = 2, a.bound = 0.5, a.max_abs_error = 1, a.rows = 2;
  b.got = 30, b.expected = 20, b.bound = 20, b.max_abs_error = 10, b.rows = 3;
  for (const Deviation& both : {combined(a, b), combined(b, a)}) {
    EXPECT_EQ(both.got, 3);
    EXPECT_EQ(both.max_abs_error, 10);
    EXPECT_EQ(both.rows, 5);
    EXPECT_TRUE(both.wrong());
  }
  EXPECT_FALSE(b.wrong());
}

TEST(CombinedTest, NothingStraysFurtherThanWhatIsNotFinite) {
  Deviation zero, infinite;
  zero.got = 1;  // where exactly 0 is due
  infinite.got = std::numeric_limits<double>::infinity(), infinite.bound = 1;
  for (const Deviation& both : {combined(zero, infinite), combined(infinite, zero)}) {
    EXPECT_THAT(both.text(), testing::HasSubstr("is not finite"));
    EXPECT_TRUE(both.wrong());
  }
  EXPECT_TRUE(zero.wrong());
}

}  // namespace
}  // namespace ringspan::bench
