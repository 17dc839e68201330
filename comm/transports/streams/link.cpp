// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace ringspan::comm::streams {
namespace {

using Size = std::uint32_t;  // of a frame, in front of it

constexpr std::size_t kMostUnsent = std::size_t{64} << 20;  // bytes
constexpr std::size_t kLongestFrame = std::size_t{1} << 20;
constexpr std::size_t kPiece = std::size_t{64} << 10;  // of what is received at once

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Link::Link(Socket socket) : socket_(std::move(socket)) {
  const int on = 1;
  setsockopt(descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void Link::set_deadline(double seconds) {
  const auto milliseconds = static_cast<unsigned>(std::clamp(1e3 * seconds, 1.0, 1e9));
  setsockopt(descriptor(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
}

void Link::send(std::span<const std::byte> frame) {
  if (ended_ || closing_) return;
  const auto size = static_cast<Size>(frame.size());
  const auto* const bytes = reinterpret_cast<const std::byte*>(&size);
  out_.insert(out_.end(), bytes, bytes + sizeof(size));
  out_.insert(out_.end(), frame.begin(), frame.end());
  if (out_.size() - sent_ > kMostUnsent) ended_ = true;
}

void Link::advance(const Take& take) {
  flush();
  // What was sent before the end still counts.
  do {
    receive();
  } while (hand_over(take));
}

void Link::flush() {
  while (!ended_ && sent_ < out_.size()) {
    const ssize_t count =
        ::send(descriptor(), out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && would_block()) return;
    if (count < 0) return;  // receive() finds out, behind what has come in
    sent_ += static_cast<std::size_t>(count);
  }
  out_.clear();
  sent_ = 0;
  if (closing_ && !std::exchange(closed_, true)) shutdown(descriptor(), SHUT_WR);
}

void Link::receive() {
  while (!ended_ && in_.size() < kLongestFrame + kPiece) {
    std::array<std::byte, kPiece> piece;
    const ssize_t count = recv(descriptor(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (count < 0 && would_block()) return;
    if (count <= 0) ended_ = true;
    if (count > 0) in_.insert(in_.end(), piece.begin(), piece.begin() + count);
  }
}

// Whether there was a frame, and so there may be room for more.
bool Link::hand_over(const Take& take) {
  std::size_t taken = 0;
  refused_ = false;
  while (!refused_ && in_.size() - taken >= sizeof(Size)) {
    Size size = 0;
    std::memcpy(&size, in_.data() + taken, sizeof(size));
    if (size > kLongestFrame) ended_ = true;
    if (in_.size() - taken - sizeof(size) < size) break;
    refused_ = !take({in_.data() + taken + sizeof(size), size});
    if (!refused_) taken += sizeof(size) + size;
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(taken));
  return taken > 0 && !refused_ && !ended_;
}

void Link::close() {
  closing_ = true;
  flush();
}

short Link::events() const {
  if (ended_) return 0;
  const bool unsent = sent_ < out_.size();
  return static_cast<short>((refused_ ? 0 : POLLIN) | (unsent ? POLLOUT : 0));
}

}  // namespace ringspan::comm::streams
