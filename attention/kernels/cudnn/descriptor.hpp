// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attention/kernels/cudnn/api.hpp"

namespace ringspan::attention::cudnn {

/// One node of a graph, a plan, or what else cuDNN describes by attributes. Others may refer to it
/// for as long as it lives. Every call throws as check() does.
class Descriptor {
 public:
  Descriptor(std::shared_ptr<const Api> api, Kind kind) : api_(std::move(api)) {
    check(*api_, api_->create(kind, &pointer_), "create");
  }
  Descriptor(Descriptor&& other) noexcept
      : api_(std::move(other.api_)), pointer_(std::exchange(other.pointer_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (pointer_) api_->destroy(pointer_);
  }

  DescriptorPointer pointer() const { return pointer_; }

  template <typename Value>
  void set(Attribute attribute, Type type, std::span<const Value> values) {
    check(*api_, api_->set(pointer_, attribute, type, std::ssize(values), values.data()), "set");
  }
  template <typename Value>
  void set(Attribute attribute, Type type, const Value& value) {
    set(attribute, type, std::span(&value, 1));
  }
  void set(Attribute attribute, const Descriptor& other) {
    set(attribute, Type::descriptor, other.pointer());
  }

  void finalize(const char* what) { check(*api_, api_->finalize(pointer_), what); }

  std::int64_t get_int64(Attribute attribute) const {
    std::int64_t value = 0, count = 0;
    check(*api_, api_->get(pointer_, attribute, Type::int64, 1, &count, &value), "get");
    return value;
  }

 private:
  std::shared_ptr<const Api> api_;
  DescriptorPointer pointer_ = nullptr;
};

}  // namespace ringspan::attention::cudnn
