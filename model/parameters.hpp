// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "comm/communicator.hpp"
#include "comm/split_evenly.hpp"
#include "model/matrix.hpp"

namespace ringspan::model {

/// How a parameter lies on the ranks of a tensor group: whole on each, or one part of its rows or
/// columns on each.
enum class Cut { none, rows, columns };

/// What values a parameter starts from: mean + deviation * normal.
struct Initial {
  double mean = 0, deviation = 0;
};

/// A weight matrix or vector, [rows][columns] if it is not cut; this rank's part of it.
struct Parameter {
  std::string name;
  std::int64_t rows = 1, columns = 1;
  Cut cut = Cut::none;
  Initial initial;
  std::int64_t first = 0;  // of this rank's part, in Parameters::values()
  Matrix value = {};
  Matrix gradient = {};  // a sum over the tokens that this rank holds, until it is reduced

  bool decays() const { return rows > 1; }  // matrices do, vectors do not (AdamW)
};

/// All parameters of a model, on one rank: values in one run of memory and gradients in another, in
/// the same order, so that what concerns all of them is one operation.
class Parameters {
 public:
  Parameters(comm::Communicator tensor, DType dtype) : tensor_(std::move(tensor)), dtype_(dtype) {}

  /// Declares one; the reference holds. All have to be declared before allocate().
  Parameter& add(Parameter parameter);

  /// Values as `seed` and their place in the whole matrix say, the same for every sharding;
  /// gradients zero.
  void allocate(std::uint64_t seed);

  const std::deque<Parameter>& all() const { return all_; }
  std::deque<Parameter>& all() { return all_; }
  DType dtype() const { return dtype_; }

  /// [1][elements of this rank], in this order: what is cut, then what every rank of the tensor
  /// group has whole.
  const Matrix& values() const { return values_; }
  const Matrix& gradients() const { return gradients_; }
  /// The columns of both that every rank of the tensor group has.
  Part replicated() const { return replicated_; }

 private:
  Part cut(std::int64_t total) const { return split_evenly(total, tensor_.size(), tensor_.rank()); }
  /// Of this rank's part.
  Part rows(const Parameter& parameter) const;
  Part columns(const Parameter& parameter) const;
  void initialise(const Parameter& parameter, std::uint64_t seed) const;

  comm::Communicator tensor_;
  DType dtype_;
  std::deque<Parameter> all_;
  Matrix values_, gradients_;
  Part replicated_;
};

}  // namespace ringspan::model
