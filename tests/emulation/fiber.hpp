// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace ringspan::emulation {

/// A function with a stack of its own, that can stop in the middle. Used from one thread. Destroyed
/// before its end, it leaves what is on its stack undestroyed.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// Runs it until it suspends itself or ends; throws what it threw.
  void resume();
  /// Called by its body: returns to resume().
  void suspend();
  bool ended() const { return ended_; }

 private:
  static void enter(unsigned high, unsigned low);

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t context_, resumer_;
  bool ended_ = false;
  std::exception_ptr thrown_;
  // What sanitizers have to be told about a change of stack.
  void* fake_stack_ = nullptr;
  const void* resumer_stack_ = nullptr;
  std::size_t resumer_stack_bytes_ = 0;
  void* own_history_ = nullptr;
  void* resumer_history_ = nullptr;
};

}  // namespace ringspan::emulation
