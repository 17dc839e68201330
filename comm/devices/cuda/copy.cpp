// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/copy.hpp"

#include <algorithm>

namespace ringspan::comm::cuda {
namespace {

Address address(const std::byte* data) { return reinterpret_cast<Address>(data); }

constexpr std::int64_t kLargestPitch = (std::int64_t{1} << 31) - 1;  // of all GPUs so far

std::int64_t pitch(const Slice& slice) { return slice.rows > 1 ? slice.stride : slice.row_bytes; }

// Where byte `index` of the message lies.
std::byte* byte_at(const Slice& slice, std::int64_t index) {
  return slice.contiguous()
             ? slice.data() + index
             : slice.data() + index / slice.row_bytes * slice.stride + index % slice.row_bytes;
}

std::int64_t left_in_row(const Slice& slice, std::int64_t index) {
  return (slice.contiguous() ? slice.bytes() : slice.row_bytes) -
         (slice.contiguous() ? index : index % slice.row_bytes);
}

void copy_bytes(const Stream& stream, std::byte* to, const std::byte* from, std::int64_t bytes) {
  const Gpu& gpu = stream.gpu();
  gpu.check(gpu.api().copy(address(to), address(from), bytes, stream.handle()), "cuMemcpyAsync");
}

// `rows` of `row_bytes`, as one of the slices cuts them.
void copy_rows(const Stream& stream, const Slice& to, const Slice& from, std::int64_t rows) {
  const Gpu& gpu = stream.gpu();
  const std::int64_t row_bytes = to.bytes() / rows;
  MemcpyRows copy;
  copy.from = address(from.data());
  copy.from_pitch = from.contiguous() ? row_bytes : pitch(from);
  copy.to = address(to.data());
  copy.to_pitch = to.contiguous() ? row_bytes : pitch(to);
  copy.row_bytes = row_bytes;
  copy.rows = rows;
  gpu.check(gpu.api().copy_rows(&copy, stream.handle()), "cuMemcpy2DAsync");
}

}  // namespace

void queue_copy(const Stream& stream, const Slice& to, const Slice& from) {
  if (to.bytes() == 0) return;
  const Current current(stream.gpu());
  const bool to_runs = to.contiguous(), from_runs = from.contiguous();
  if (to_runs && from_runs) return copy_bytes(stream, to.data(), from.data(), to.bytes());
  const std::int64_t rows = to_runs ? from.rows : to.rows;
  const auto apart = [](const Slice& slice) {
    return slice.stride >= slice.row_bytes && slice.stride <= kLargestPitch;
  };
  const bool alike = to_runs || from_runs || to.rows == from.rows;
  if (alike && (to_runs || apart(to)) && (from_runs || apart(from)))
    return copy_rows(stream, to, from, rows);
  for (std::int64_t done = 0; done < to.bytes();) {
    const std::int64_t bytes = std::min(left_in_row(to, done), left_in_row(from, done));
    copy_bytes(stream, byte_at(to, done), byte_at(from, done), bytes);
    done += bytes;
  }
}

}  // namespace ringspan::comm::cuda
