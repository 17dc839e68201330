// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/host_reduction.hpp"

#include <algorithm>

#include "comm/devices/cuda/copy.hpp"
#include "comm/devices/host.hpp"

namespace ringspan::comm::cuda {
namespace {

constexpr std::int64_t kPieceBytes = 1 << 20;

/// What the driver's thread does with a piece that has come in.
struct Piece {
  Slice to, from;  // of memory that is not owned: buffers may not be released on that thread
  Element element;
  Reduction reduction;

  static void run(void* data) {
    const std::unique_ptr<Piece> piece(static_cast<Piece*>(data));
    make_host_device()->reduce(piece->to, piece->from, piece->element, piece->reduction);
  }
};

Slice borrowed(const Buffer& buffer, std::int64_t bytes) {
  return whole(Buffer(buffer.data(), bytes, {}));
}

}  // namespace

HostReduction::HostReduction(const Stream& stream, const std::shared_ptr<Memory>& memory)
    : stream_(stream), memory_(memory) {}

void HostReduction::queue(const Slice& to, const Slice& from, Element element,
                          Reduction reduction) {
  for (std::int64_t done = 0; done < to.bytes(); done += kPieceBytes) {
    const std::int64_t bytes = std::min(kPieceBytes, to.bytes() - done);
    queue_piece(slice(to.buffer, to.offset + done, bytes),
                slice(from.buffer, from.offset + done, bytes), element, reduction);
  }
}

// In order on one stream, so that the next piece may use the same memory.
void HostReduction::queue_piece(const Slice& to, const Slice& from, Element element,
                                Reduction reduction) {
  if (!first_) first_ = memory_->allocate_values(kPieceBytes, false);
  if (!second_) second_ = memory_->allocate_values(kPieceBytes, false);
  const std::int64_t bytes = to.bytes();
  const Gpu& gpu = stream_.gpu();
  queue_copy(stream_, slice(first_, 0, bytes), to);
  queue_copy(stream_, slice(second_, 0, bytes), from);
  const Current current(gpu);
  auto piece = std::make_unique<Piece>(
      Piece{borrowed(first_, bytes), borrowed(second_, bytes), element, reduction});
  gpu.check(gpu.api().launch_host_function(stream_.handle(), Piece::run, piece.get()),
            "cuLaunchHostFunc");
  piece.release();  // to the driver's thread
  queue_copy(stream_, to, slice(first_, 0, bytes));
}

}  // namespace ringspan::comm::cuda
