// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attention/schedule.hpp"
#include "bench/oracle/input_values.hpp"

namespace ringspan::bench {

/// One value as it should be, and how far rounding may take it from there: 16 eps of the
/// accumulator times (1 + largest |logit|) times the sum of what was added in absolute value, plus
/// the rounding to the dtype of the result (and, in gradients, of the out that they are given),
/// plus what weights too small to matter to the row would have added. Kernels that
/// round weights (Kernels::rounds_weights): two more roundings to the dtype.
struct Expected {
  double value = 0;
  double bound = 0;
};

/// Single rows of attention in fp64 from the definition: inputs and mask from global positions, two
/// passes over the keys, no tiles, no bands, no partial results.
class RowOracle {
 public:
  RowOracle(const attention::Problem& problem, const InputValues& inputs,
            bool rounds_weights = false);

  /// Of one query and head: [value_dim], [head_dim].
  struct QueryRow {
    std::vector<Expected> out, dq;
  };
  QueryRow query_row(std::int64_t batch, std::int64_t head, std::int64_t query,
                     bool backward) const;

  /// Of one key and KV head: [head_dim], [value_dim]. Costs a query row per query that sees it.
  struct KeyRow {
    std::vector<Expected> dk, dv;
  };
  KeyRow key_row(std::int64_t batch, std::int64_t kv_head, std::int64_t key) const;

  /// Of one query: what the heads of this KV head add to the sum of dv over all keys, without
  /// sinks. [value_dim]
  std::vector<Expected> dv_sum_share(std::int64_t batch, std::int64_t kv_head,
                                     std::int64_t query) const;

  /// How far the dtype of the results may take a value that it stores.
  double storage_error(double value) const;

  /// Multiply-adds of key_row.
  double key_row_cost(std::int64_t key) const;

 private:
  struct Interval {
    std::int64_t first = 0, end = 0;
  };
  struct Row;      // everything about one query
  struct Sum;      // a value, and what bounds its error
  struct Weights;  // of one key in one row

  Interval neighbours(std::int64_t position, std::optional<std::int64_t> before,
                      std::optional<std::int64_t> behind) const;
  Interval keys_of(std::int64_t query) const {
    return neighbours(query, problem_.mask.left, problem_.mask.right);
  }
  Interval queries_of(std::int64_t key) const {
    return neighbours(key, problem_.mask.right, problem_.mask.left);
  }
  Row row(std::int64_t batch, std::int64_t head, std::int64_t query) const;
  double logit(const Row& row, const std::vector<float>& k) const;
  Weights weights(const Row& row, const std::vector<float>& k, const std::vector<float>& v) const;
  std::vector<float> head(InputTensor tensor, std::int64_t batch, std::int64_t position,
                          std::int64_t head) const;
  double relative_error(double largest_logit) const;
  std::vector<Expected> rounded(const std::vector<Sum>& sums, double largest_logit) const;

  attention::Problem problem_;
  InputValues inputs_;
  bool rounds_weights_;
  double scale_;
  std::vector<std::int64_t> document_starts_;  // and where the last one ends
};

}  // namespace ringspan::bench
