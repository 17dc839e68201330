// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/kernels.hpp"
#include "tests/attention/oracle.hpp"

namespace ringspan::attention {

/// Names of the kernel families that compute attention on the host; with RINGSPAN_TEST_KERNELS=cuda
/// those of a GPU instead.
std::vector<std::string> computing_families();

/// A tensor in some arrangement in memory.
struct Stored {
  comm::Buffer memory;
  TensorView view;
};

/// Puts an array into a device's memory.
using Store = std::function<Stored(comm::Device&, const Array&, DType)>;
Stored store_packed(comm::Device& device, const Array& array, DType dtype);

/// The keys of a sequence in blocks, as they would visit a rank, and what is visible of each.
struct KeyBlocks {
  std::vector<Shard> shards;
  std::vector<std::vector<Tile>> tiles;
};
KeyBlocks key_blocks(const Problem& problem, std::vector<Shard> shards);
KeyBlocks one_key_block(const Problem& problem);

struct LocalResults {
  Array out, lse, dq, dk, dv, d_sinks;
  bool rounded_weights = false;  // to the dtype of the problem, before they are multiplied
  std::int64_t library_tiles = 0;
};

/// A device that has memory for kernels of this family, which starts as NaN.
std::unique_ptr<comm::Device> device_for(std::string_view family);

/// All queries of the sequence on one device against all keys, block after block, forward and
/// backward: what a rank does, without the other ranks. All memory starts as NaN.
LocalResults attend(std::string_view family, const Problem& problem, const OracleInputs& inputs,
                    const KeyBlocks& blocks, const Store& store = store_packed);

/// Each result within its bound.
void expect_close(const LocalResults& actual, const OracleResults& expected,
                  const Problem& problem);
void expect_same(const LocalResults& actual, const LocalResults& expected);

/// What holds of gradients however large the logits are: they are finite, and no weight is above 1.
void expect_bounded(const Array& dq, const Array& dk, const Array& dv, const Array& d_sinks,
                    const OracleInputs& inputs);

/// A partial result in memory of its own that has seen nothing.
struct OwnedPartial {
  OwnedPartial(comm::Device& device, Kernels& kernels, const Shape& shape, std::int64_t tokens);

  Tensor out, max, sum;
  Partial view;
};

}  // namespace ringspan::attention
