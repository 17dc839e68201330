// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention/tensor.hpp"
#include "comm/all_to_all.hpp"

namespace ringspan::attention {

/// [batch][tokens] rows of bytes, `stride` apart.
struct PackedRows {
  std::byte* data = nullptr;
  std::int64_t stride = 0, batch = 0, tokens = 0;

  /// The part of each row from byte `offset` on that holds these heads.
  TensorView tensor(std::int64_t offset, DType dtype, std::int64_t heads,
                    std::int64_t head_dim) const;
};

/// PackedRows of one kind on both sides of an all-to-all between tokens and heads. A row holds what
/// one rank's heads have at one token, say its q, k and v. On the token side a rank has the rows of
/// all ranks for its own tokens; on the head side it has its own row for all tokens. Every message
/// lands where it belongs, so nothing is unpacked:
///   token side  [batch][own tokens][row of rank 0 | row of rank 1 | ...]
///   head side   [batch][tokens of rank 0, tokens of rank 1, ...][own row]
class RowExchange {
 public:
  enum class Direction { to_heads, to_tokens };

  /// What the ranks agree on.
  struct Sizes {
    std::int64_t batch = 1;
    std::vector<std::int64_t> tokens;     // [rank]
    std::vector<std::int64_t> row_bytes;  // [rank]

    std::int64_t token_side_bytes(int rank) const;
    std::int64_t head_side_bytes(int rank) const;
  };

  /// Collective. The buffers may be larger than needed, and serve several exchanges in turn.
  RowExchange(const comm::Communicator& comm, Sizes sizes, Direction direction,
              comm::AllToAllAlgorithm algorithm, comm::Buffer token_side, comm::Buffer head_side);

  /// Here, the rows of `rank`; this rank's rows.
  PackedRows token_side(int rank) const;
  PackedRows head_side() const;

  /// In between, the rows to be sent may be read, and those received not touched.
  void start();
  void finish();

 private:
  Sizes sizes_;
  int rank_;
  comm::Buffer token_side_, head_side_;
  comm::AllToAll all_to_all_;
};

}  // namespace ringspan::attention
