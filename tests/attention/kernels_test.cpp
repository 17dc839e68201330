// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "comm/devices/host.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/local_attention.hpp"
#include "tests/attention/random_sequence.hpp"

namespace ringspan::attention {
namespace {

/// Every family that computes, alone on one device.
class KernelsTest : public testing::TestWithParam<std::string> {
 protected:
  LocalResults attend_in(const Problem& problem, const OracleInputs& inputs,
                         const KeyBlocks& blocks, const Store& store = store_packed) const {
    return attend(GetParam(), problem, inputs, blocks, store);
  }

  void expect_matches_oracle(const Problem& problem, std::uint64_t seed) const {
    const OracleInputs inputs = random_inputs(problem, seed);
    SCOPED_TRACE(testing::Message()
                 << problem.sequence.length << " tokens, batch " << problem.shape.batch
                 << ", heads " << problem.shape.heads << '/' << problem.shape.kv_heads << ", dims "
                 << problem.shape.head_dim << '/' << problem.shape.value_dim << ", "
                 << name(problem.mask) << ", " << name(problem.shape.dtype));
    expect_close(attend_in(problem, inputs, one_key_block(problem)), oracle(problem, inputs),
                 problem);
  }
};

INSTANTIATE_TEST_SUITE_P(Families, KernelsTest, testing::ValuesIn(computing_families()),
                         [](const auto& info) { return info.param; });

Problem small_problem(std::string_view mask = "causal") {
  Problem problem;
  problem.shape = {.batch = 2, .heads = 6, .kv_heads = 3, .head_dim = 6, .value_dim = 10};
  problem.sequence = {.length = 29, .documents = {5, 0, 1, 16, 3}};
  problem.mask = parse_mask(mask);
  return problem;
}

Array ones(const Array& like) { return Array(like.batch, like.tokens, like.heads, like.dim, 1.0); }

TEST_P(KernelsTest, MatchesTheOracleForEveryShapeAndMask) {
  const std::int64_t heads[][2] = {{4, 4}, {4, 2}, {4, 1},  {6, 3},
                                   {7, 7}, {8, 2}, {12, 3}, {12, 4}};
  const std::int64_t dims[][2] = {{6, 6},    {64, 64},  {72, 72}, {128, 128},
                                  {128, 64}, {64, 128}, {1, 3}};
  const char* masks[] = {"full",       "causal",    "window:5",
                         "window:7:3", "documents", "documents+causal+window:4:4"};
  const std::int64_t lengths[] = {1, 3, 7, 16, 29};
  const int stride = 56 / trials(56);  // 1; 11 under a sanitizer
  for (int n = 0; n < 56; n += stride) {
    const auto& head = heads[n / 7];
    const auto& dim = dims[n % 7];
    Problem problem = small_problem(masks[n % 6]);
    problem.shape = {.batch = 1 + n % 2,
                     .heads = head[0],
                     .kv_heads = head[1],
                     .head_dim = dim[0],
                     .value_dim = dim[1]};
    const std::int64_t length = lengths[n % 5];
    problem.sequence = {.length = length};
    if (n % 3) problem.sequence.documents = {length / 2, 0, length / 3};
    expect_matches_oracle(problem, n);
  }
}

TEST_P(KernelsTest, MatchesTheOracleBeyondTheSizeOfAnyBlock) {
  for (const char* mask : {"full", "causal", "window:100:20"}) {
    Problem problem = small_problem(mask);
    problem.shape = {.heads = 1, .kv_heads = 1, .head_dim = 7, .value_dim = 9};
    problem.sequence = {.length = 330};
    expect_matches_oracle(problem, 1);
  }
}

TEST_P(KernelsTest, MatchesTheOracleWithScaleSoftcapAndSinks) {
  Problem problem = small_problem("documents+window:7:3");
  problem.softmax_scale = 0.9;
  problem.softcap = 2.5;
  expect_matches_oracle(problem, 1);
  problem.sinks = true;
  expect_matches_oracle(problem, 2);
  problem.softcap.reset();
  expect_matches_oracle(problem, 3);
}

TEST_P(KernelsTest, MatchesTheOracleInHalfPrecision) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Problem problem = small_problem("documents+causal");
    problem.shape.dtype = dtype;
    expect_matches_oracle(problem, 1);
    problem.sinks = true;
    problem.softcap = 3;
    problem.shape.head_dim = 72;
    expect_matches_oracle(problem, 2);
  }
}

TEST_P(KernelsTest, AnyOrderOfKeyBlocksGivesTheResult) {
  for (const LayoutKind kind : {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag}) {
    const Problem problem = small_problem("documents+window:9:4");
    const OracleInputs inputs = random_inputs(problem, 5);
    const OracleResults expected = oracle(problem, inputs);
    std::vector<int> order = {0, 1, 2};
    do {
      std::vector<Shard> shards;
      for (const int rank : order) shards.push_back(shard(kind, problem.sequence, 3, rank));
      SCOPED_TRACE(testing::Message() << name(kind) << testing::PrintToString(order));
      expect_close(attend_in(problem, inputs, key_blocks(problem, shards)), expected, problem);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_P(KernelsTest, AnyCutIntoTilesGivesTheResult) {
  const Problem problem = small_problem("window:9:4");
  const OracleInputs inputs = random_inputs(problem, 6);
  const OracleResults expected = oracle(problem, inputs);
  const Shard all = {{0, 1, problem.sequence.length}};
  for (const int pieces : {2, 3, 7, 29}) {
    KeyBlocks blocks = one_key_block(problem);
    blocks.tiles[0].clear();
    for (int i = 0; i < pieces; ++i) {
      for (int j = 0; j < pieces; ++j) {
        const Shard queries = piece(all, pieces, i), keys = piece(all, pieces, j);
        for (Tile tile : visible_tiles(queries, keys, problem.sequence, problem.mask)) {
          tile.queries.first += queries[0].first;
          tile.keys.first += keys[0].first;
          blocks.tiles[0].push_back(tile);
        }
      }
    }
    SCOPED_TRACE(testing::Message() << pieces << " pieces");
    expect_close(attend_in(problem, inputs, blocks), expected, problem);
  }
}

TEST_P(KernelsTest, SeenKeysInStridesOfRowsGiveTheResult) {
  // The same mask in residue classes: tiles whose rows are not next to each other.
  const Problem problem = small_problem("causal");
  const OracleInputs inputs = random_inputs(problem, 7);
  KeyBlocks blocks = one_key_block(problem);
  blocks.tiles[0].clear();
  const std::int64_t tokens = 25;  // the others are padding
  for (std::int64_t a = 0; a < 3; ++a) {
    for (std::int64_t b = 0; b < 3; ++b) {
      const std::int64_t first = b > a ? a + 3 : a;  // the first query of its class to see a key
      const std::int64_t count = (tokens - first + 2) / 3;
      const Rows queries{first, 3, count}, keys{b, 3, std::min(count, (tokens - b + 2) / 3)};
      blocks.tiles[0].push_back({queries, keys, 1 - count, 0});
    }
  }
  expect_close(attend_in(problem, inputs, blocks), oracle(problem, inputs), problem);
}

TEST_P(KernelsTest, RerunsHaveTheSameBits) {
  Problem problem = small_problem();
  problem.sinks = true;
  const OracleInputs inputs = random_inputs(problem, 8);
  const KeyBlocks blocks = one_key_block(problem);
  expect_same(attend_in(problem, inputs, blocks), attend_in(problem, inputs, blocks));
}

TEST_P(KernelsTest, PaddingNeitherMattersNorReceivesAnything) {
  Problem problem = small_problem();
  problem.sinks = true;
  OracleInputs inputs = random_inputs(problem, 9);
  const KeyBlocks blocks = one_key_block(problem);
  const LocalResults clean = attend_in(problem, inputs, blocks);
  for (Array* array : {&inputs.q, &inputs.k, &inputs.v, &inputs.d_out}) {
    for (std::int64_t b = 0; b < 2; ++b) {
      std::fill_n(array->row(b, 25, 0), 4 * array->heads * array->dim, NAN);
    }
  }
  const LocalResults poisoned = attend_in(problem, inputs, blocks);
  expect_same(poisoned, clean);
  for (const Array* array : {&poisoned.out, &poisoned.dq, &poisoned.dk, &poisoned.dv}) {
    EXPECT_TRUE(std::all_of(array->row(1, 25, 0), array->row(1, 28, 0) + array->heads * array->dim,
                            [](double value) { return value == 0; }));
  }
  EXPECT_EQ(*poisoned.lse.row(1, 26, 2), -HUGE_VAL);
}

TEST_P(KernelsTest, ZeroQueriesGiveTheMeanAndTheLogOfTheCount) {
  Problem problem = small_problem("causal");
  problem.sequence.documents.clear();
  OracleInputs inputs = random_inputs(problem, 10);
  std::fill(inputs.q.values.begin(), inputs.q.values.end(), 0);
  const LocalResults results = attend_in(problem, inputs, one_key_block(problem));
  for (std::int64_t i = 0; i < 29; ++i) {
    EXPECT_NEAR(*results.lse.row(1, i, 3), std::log(i + 1.0), 1e-6);
    double mean = 0;
    for (std::int64_t j = 0; j <= i; ++j) mean += inputs.v.row(1, j, 1)[9] / (i + 1);
    EXPECT_NEAR(results.out.row(1, i, 3)[9], mean, 1e-6);
  }
}

TEST_P(KernelsTest, LseIsTheNaturalLogarithm) {
  const Problem problem = small_problem();
  const OracleInputs inputs = random_inputs(problem, 11);
  const OracleResults expected = oracle(problem, inputs);
  const LocalResults results = attend_in(problem, inputs, one_key_block(problem));
  for (std::size_t i = 0; i < expected.lse.values.size(); ++i) {
    if (std::isinf(expected.lse.values[i])) continue;
    EXPECT_NEAR(results.lse.values[i], expected.lse.values[i], 1e-6);
  }
}

TEST_P(KernelsTest, ValuesOfOneGiveExactlyOne) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const char* mask : {"full", "causal", "window:7:3", "documents"}) {
      Problem problem = small_problem(mask);
      problem.sequence = {.length = 300, .documents = {5, 1, 200, 94}};
      problem.shape = {.head_dim = 6, .value_dim = 3, .dtype = dtype};
      OracleInputs inputs = random_inputs(problem, 12);
      inputs.v = ones(inputs.v);
      const LocalResults results = attend_in(problem, inputs, one_key_block(problem));
      for (const double out : results.out.values) ASSERT_EQ(out, 1.0) << mask;
    }
  }
}

TEST_P(KernelsTest, VeryNegativeLogitsAreAnOrdinarySoftmax) {
  Problem problem = small_problem("full");
  problem.sequence.documents.clear();
  problem.softmax_scale = -1e4;
  OracleInputs inputs = random_inputs(problem, 13);
  inputs.q = ones(inputs.q);
  inputs.k = ones(inputs.k);  // every logit is -6e4
  const LocalResults results = attend_in(problem, inputs, one_key_block(problem));
  for (const double lse : results.lse.values)
    EXPECT_NEAR(lse, -6e4 + std::log(29.0), 6e4 * 0x1p-22);
  double mean = 0;
  for (std::int64_t j = 0; j < 29; ++j) mean += inputs.v.row(0, j, 2)[3] / 29;
  EXPECT_NEAR(results.out.row(0, 7, 5)[3], mean, 1e-6);
}

TEST(KernelFamiliesTest, TheReferenceAloneTakesFp64) {
  Problem problem = small_problem("documents+window:7:3");
  problem.shape.dtype = DType::f64;
  problem.sinks = true;
  problem.softcap = 2;
  const OracleInputs inputs = random_inputs(problem, 15);
  const LocalResults results = attend("reference", problem, inputs, one_key_block(problem));
  expect_close(results, oracle(problem, inputs), problem);
  const auto device = comm::make_host_device();
  EXPECT_THROW(make_kernels("cpu", *device)->prepare(problem.shape), Error);
}

TEST(KernelFamiliesTest, TheReferenceLosesNothingToLargeMaxima) {
  // Between blocks whose maxima fp32 cannot hold: sums relative to an unrounded maximum would be
  // off by 2^0.004.
  Problem problem;
  problem.shape = {.head_dim = 1, .value_dim = 1};
  problem.sequence = {.length = 2};
  problem.softmax_scale = 1;
  OracleInputs inputs{
      Array(1, 2, 1, 1, 1.0), Array(1, 2, 1, 1), Array(1, 2, 1, 1), Array(1, 2, 1, 1), {}};
  inputs.k.values = {60000.09375, 60000.203125};
  inputs.v.values = {1, 0};
  const KeyBlocks blocks = key_blocks(problem, {{{0, 1, 1}}, {{1, 1, 1}}});
  const double expected = 1 / (1 + std::exp(60000.203125 - 60000.09375));
  EXPECT_NEAR(attend("reference", problem, inputs, blocks).out.values[0], expected, 1e-7);
}

TEST(KernelFamiliesTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  const auto device = comm::make_host_device();
  try {
    make_kernels("xla", *device);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::StartsWith("unknown kernel 'xla'; known are reference, "
                                    "reproducible, cpu, cuda, cudnn, null, modelled"));
  }
}

}  // namespace
}  // namespace ringspan::attention
