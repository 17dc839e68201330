// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace ringspan::comm::streams {

/// A descriptor, closed in the end; -1: none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// One end of a TCP connection: passes whole frames on, in order, and never blocks. For one thread.
class Link {
 public:
  /// `socket` is connected.
  explicit Link(Socket socket);

  /// Ends if the other end does not acknowledge what was sent for so many seconds.
  void set_deadline(double seconds);

  /// Queued until flush() or advance(), unless it is closed; if the other end takes too little for
  /// too long, this has ended.
  void send(std::span<const std::byte> frame);

  /// Takes a frame, or returns false, and gets it again at the next advance().
  using Take = std::function<bool(std::span<const std::byte> frame)>;
  /// Sends and receives as much as goes without waiting.
  void advance(const Take& take);

  /// Sends as much as goes without waiting.
  void flush();

  /// There is no more to send, which the other end learns once it has received the rest.
  void close();
  /// The other end has closed, or is gone, and all that came from it has been taken.
  bool ended() const { return ended_ && !refused_; }

  int descriptor() const { return socket_.descriptor(); }
  /// As poll() has them: what it is worth to advance for.
  short events() const;

 private:
  void receive();
  bool hand_over(const Take& take);

  Socket socket_;
  std::vector<std::byte> out_, in_;
  std::size_t sent_ = 0;  // of out_
  bool closing_ = false, closed_ = false, ended_ = false, refused_ = false;
};

}  // namespace ringspan::comm::streams
