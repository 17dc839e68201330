// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "comm/request.hpp"

namespace ringspan::comm {

/// The caller's hold on an operation that a host transport's engine progresses; letting go of it
/// before it is done abandons it.
template <typename Engine, typename Operation>
class PendingOperation final : public Request::Pending {
 public:
  PendingOperation(std::shared_ptr<Engine> engine, std::shared_ptr<Operation> operation)
      : engine_(std::move(engine)),
        operation_(std::move(operation)),
        exceptions_(std::uncaught_exceptions()) {}

  ~PendingOperation() override {
    engine_->abandon(*operation_, std::uncaught_exceptions() > exceptions_);
  }

  bool test() override {
    return abandon_on_failure([this] { return engine_->test(*operation_, patience_); });
  }

  void wait() override {
    abandon_on_failure([this] { engine_->wait(*operation_); });
  }

 private:
  // The caller may free or overwrite what it sent as soon as it sees the failure.
  template <typename Call>
  auto abandon_on_failure(Call call) -> decltype(call()) {
    try {
      return call();
    } catch (...) {
      engine_->abandon(*operation_, true);
      throw;
    }
  }

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Operation> operation_;
  typename Engine::Patience patience_;
  const int exceptions_;
};

}  // namespace ringspan::comm
