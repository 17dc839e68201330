// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace ringspan::comm {

/// Reference-counted memory of one device. Copies share it. A buffer may be written only by its
/// sole owner: that is what lets a transport lend a block to another rank instead of copying it.
class Buffer {
 public:
  Buffer() = default;

  /// Owns `bytes` at `data`; `release` runs once, on the thread that drops the last reference.
  Buffer(std::byte* data, std::int64_t bytes, std::function<void()> release);

  Buffer(const Buffer& other) noexcept : block_(other.block_) { retain(); }
  Buffer(Buffer&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Buffer() { drop(); }

  explicit operator bool() const { return block_ != nullptr; }
  std::byte* data() const { return block_ ? block_->data : nullptr; }
  std::int64_t bytes() const { return block_ ? block_->bytes : 0; }

  /// True if nobody else holds this memory; everything earlier owners did is then visible here.
  bool sole_owner() const { return block_ && block_->owners.load(std::memory_order_acquire) == 1; }

 private:
  struct Block {
    std::byte* data;
    std::int64_t bytes;
    std::function<void()> release;
    std::atomic<std::int64_t> owners{1};
  };

  void retain() noexcept {
    if (block_) block_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  void drop() noexcept;

  Block* block_ = nullptr;
};

/// Part of a buffer, as everything that moves is described: `rows` rows of `row_bytes`, `stride`
/// bytes apart, the first at `offset`. One row is a plain run of bytes. A message is the rows one
/// after the other, so sender and receiver may cut the same bytes into different rows.
struct Slice {
  Buffer buffer;
  std::int64_t offset = 0;
  std::int64_t rows = 1;
  std::int64_t row_bytes = 0;
  std::int64_t stride = 0;

  std::int64_t bytes() const { return rows * row_bytes; }
  std::byte* data() const { return buffer.data() + offset; }
  bool contiguous() const { return rows <= 1 || stride == row_bytes; }
};

/// `bytes` of `buffer` from `offset`.
inline Slice slice(Buffer buffer, std::int64_t offset, std::int64_t bytes) {
  return {std::move(buffer), offset, 1, bytes, bytes};
}

/// All of `buffer`.
inline Slice whole(Buffer buffer) {
  const std::int64_t bytes = buffer.bytes();
  return slice(std::move(buffer), 0, bytes);
}

/// Throws invalid_argument unless the slice lies inside its buffer (no 64-bit product wraps).
void require_inside(const Slice& slice);

}  // namespace ringspan::comm
