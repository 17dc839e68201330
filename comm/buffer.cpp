// SPDX-License-Identifier: Apache-2.0
#include "comm/buffer.hpp"

#include "comm/error.hpp"

namespace ringspan::comm {

Buffer::Buffer(std::byte* data, std::int64_t bytes, std::function<void()> release)
    : block_(new Block{data, bytes, std::move(release)}) {}

void Buffer::drop() noexcept {
  if (!block_ || block_->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (block_->release) block_->release();
  delete block_;
}

void require_inside(const Slice& slice) {
  const std::int64_t space = slice.buffer.bytes();
  RINGSPAN_REQUIRE(
      slice.offset >= 0 && slice.rows >= 0 && slice.row_bytes >= 0 && slice.stride >= 0,
      "slice: offset ", slice.offset, ", rows ", slice.rows, ", row_bytes ", slice.row_bytes,
      " and stride ", slice.stride, " must not be negative");
  if (slice.rows == 0 || slice.row_bytes == 0) return;
  std::int64_t end = 0;
  const bool wraps = __builtin_mul_overflow(slice.rows - 1, slice.stride, &end) ||
                     __builtin_add_overflow(end, slice.row_bytes, &end) ||
                     __builtin_add_overflow(end, slice.offset, &end);
  RINGSPAN_REQUIRE(!wraps && end <= space, "slice: ", slice.rows, " rows of ", slice.row_bytes,
                   " bytes, ", slice.stride, " apart from offset ", slice.offset,
                   ", do not fit in a buffer of ", space, " bytes");
}

}  // namespace ringspan::comm
