// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedule.hpp"
#include "tests/attention/array.hpp"

// Attention over the whole sequence in fp64, with a dense mask made from positions and documents.
// It knows nothing of tiles, bands, blocks or partial results, so that it can judge them.
namespace ringspan::attention {

struct OracleInputs {
  Array q, k, v, d_out;
  std::vector<double> sinks;  // one per head, or none
};

/// Normally distributed inputs for the problem, rounded to its dtype (sinks to fp32).
OracleInputs random_inputs(const Problem& problem, std::uint64_t seed);

/// Results, and for each of their elements its error unit: a kernel that computes with precision
/// eps should be off by no more than a small number of eps * unit, whatever the values.
///
/// The unit of a sum is the sum of its terms' absolute values, each times the relative error that
/// the term may have in units of eps. With L_i = 1 + max_j |s_ij| over what query i sees (an error
/// of eps * |s| in a logit is one of that size, relative, in p = exp(s - lse)), and the terms of
/// d_out.v and d_out.out, a_ij = sum_d |d_out_id v_jd| and A_i = sum_j p_ij a_ij:
///   lse_i   L_i
///   out_i   L_i sum_j p_ij |v_j|
///   dv_j    sum_i L_i p_ij |d_out_i|
///   dq_i    scale sum_j e_ij |k_j|,  dk_j  scale sum_i e_ij |q_i|
///   d_sink  sum_i exp(sink - lse_i) (L_i A_i + R_i)
/// e_ij belongs to ds_ij = slope p_ij (d_out.v_j - delta_i), whose factors are off by L_i for p, by
/// 1 for slope = 1 - tanh^2, by a_ij for d_out.v_j, and by L_i A_i + R_i for delta_i = d_out.out_i:
///   e_ij = p_ij ((L_i slope + 1 if capped) |d_out.v_j - delta_i| + slope (a_ij + L_i A_i + R_i))
/// R_i is for an `out` stored in 16 bits: sum_d |d_out_id out_id| times half an ulp, in units of
/// the bound. A sink counts as one of the logits in L.
struct OracleResults {
  Array out, lse, dq, dk, dv;
  Array out_unit, lse_unit, dq_unit, dk_unit, dv_unit;
  Array d_sinks, d_sinks_unit;  // [1][1][heads][1], only with sinks
};

OracleResults oracle(const Problem& problem, const OracleInputs& inputs);

/// Whether the query at one position sees the key at another, straight from the words: neither is
/// padding; the key lies at most `left` before and `right` behind the query; with `documents`, in
/// the same document.
bool sees(const Problem& problem, std::int64_t query, std::int64_t key);

}  // namespace ringspan::attention
