// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "attention/kernels/cudnn/api.hpp"

namespace emulation::cudnn {

using namespace ringspan::attention::cudnn;

/// A descriptor: what has been set of it.
struct Node {
  template <typename Value>
  std::vector<Value> all(Attribute attribute) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return {};
    std::vector<Value> values(found->second.size() / sizeof(Value));
    std::memcpy(values.data(), found->second.data(), values.size() * sizeof(Value));
    return values;
  }
  template <typename Value>
  Value one(Attribute attribute) const {
    Value value{};
    const auto found = attributes.find(attribute);
    if (found != attributes.end() && found->second.size() >= sizeof(value))
      std::memcpy(&value, found->second.data(), sizeof(value));
    return value;
  }
  const Node* node(Attribute attribute) const { return one<const Node*>(attribute); }

  Kind kind;
  std::map<Attribute, std::vector<char>> attributes;
  bool finalized = false;
};

/// Where in memory the tensors of a graph are.
using Pointers = std::map<std::int64_t, void*>;

/// The work of an attention node, with the values of the host as they are now. Throws out_of_range
/// where a tensor is not among the pointers, or not aligned.
std::function<void()> bind_attention(const Node& node, const Pointers& pointers);

}  // namespace emulation::cudnn
