// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/fiber.hpp"

#include <cstdint>
#include <system_error>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace ringspan::emulation {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;  // only what is touched takes memory

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)), stack_(new std::byte[kStackBytes]) {
  if (getcontext(&context_) != 0) throw std::system_error(errno, std::generic_category());
  context_.uc_stack.ss_sp = stack_.get();
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);  // arguments are ints
  makecontext(&context_, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
#ifdef __SANITIZE_THREAD__
  own_history_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(own_history_);
#endif
}

void Fiber::resume() {
#ifdef __SANITIZE_ADDRESS__
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_.get(), kStackBytes);
#endif
#ifdef __SANITIZE_THREAD__
  resumer_history_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(own_history_, 0);
#endif
  swapcontext(&resumer_, &context_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Fiber::suspend() {
#ifdef __SANITIZE_ADDRESS__
  // Of one that ends nothing is kept.
  __sanitizer_start_switch_fiber(ended_ ? nullptr : &fake_stack_, resumer_stack_,
                                 resumer_stack_bytes_);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(resumer_history_, 0);
#endif
  swapcontext(&context_, &resumer_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack_, &resumer_stack_, &resumer_stack_bytes_);
#endif
}

void Fiber::enter(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &self->resumer_stack_, &self->resumer_stack_bytes_);
#endif
  try {
    self->body_();
  } catch (...) {
    self->thrown_ = std::current_exception();
  }
  self->ended_ = true;
  self->suspend();
}

}  // namespace ringspan::emulation
