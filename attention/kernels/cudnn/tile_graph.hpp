// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "attention/kernels/cudnn/descriptor.hpp"
#include "attention/tensor.hpp"

namespace ringspan::attention::cudnn {

/// What a graph is made for. Strides count elements and those of tokens contain the step of the
/// tile; all that is named nowhere here is packed.
struct TileShape {
  enum class Pass { forward, backward };
  struct Strides {
    std::int64_t batch = 0, token = 0, head = 0;
    auto operator<=>(const Strides&) const = default;
  };

  Pass pass = Pass::forward;
  DType dtype = DType::bf16;  // or f16
  std::int64_t batch = 1, queries = 1, keys = 1;
  std::int64_t heads = 1, kv_heads = 1, head_dim = 64, value_dim = 64;
  Strides q, k, v;
  Strides d_out = {};                 // backward
  bool lower = false, upper = false;  // whether the band has such a bound

  auto operator<=>(const TileShape&) const = default;
};

/// The tensors of the graph.
enum class Id : std::int64_t {
  q = 1,
  k,
  v,
  out,
  statistics,
  scale,
  fill,
  right_shift,
  left_bound,
  d_out,
  dq,
  dk,
  dv,
};

/// One tile of attention as cuDNN has it, [batch][queries or keys][heads][elements] in the dtype
/// but for statistics, [batch][queries][heads] in fp32.
///
/// Forward: q, k, v -> out, divided, and statistics = log2 sum exp. Backward: q, k, v, d_out, out
/// of all keys and statistics = ln sum exp of all keys -> dq, dk, dv of this tile alone; of `out`
/// nothing is used but its product with d_out.
///
/// Of the band lo <= j - i <= hi, right_shift is hi and left_bound 1 - lo: values of the host, as
/// scale and fill (-inf) are.
class TileGraph {
 public:
  TileGraph(std::shared_ptr<const Api> api, const TileShape& shape);

  /// Engines that can do it on that device, the best first.
  std::vector<Descriptor> engines(const Descriptor& device) const;

 private:
  enum class Place { device, host, nowhere };

  Descriptor& add(Kind kind) { return descriptors_.emplace_back(api_, kind); }
  Descriptor& tensor(std::int64_t id, int type, std::vector<std::int64_t> dimensions,
                     std::vector<std::int64_t> strides, Place place);
  Descriptor& value(Id id, int type) {
    return tensor(static_cast<std::int64_t>(id), type, {1, 1, 1, 1}, {1, 1, 1, 1}, Place::host);
  }
  Descriptor& rows(Id id, std::int64_t heads, std::int64_t tokens, std::int64_t dim,
                   const TileShape::Strides& strides);
  Descriptor& packed(Id id, std::int64_t heads, std::int64_t tokens, std::int64_t dim);
  Descriptor& statistics();
  Descriptor& scores(std::int64_t id);
  Descriptor& forward();
  Descriptor& backward();
  Descriptor& softmax();
  void add_mask(Descriptor& attention, Attribute scores_graph, Attribute scores_in,
                Attribute scores_out);

  const std::shared_ptr<const Api> api_;
  const TileShape shape_;
  std::deque<Descriptor> descriptors_;
  const Descriptor* graph_ = nullptr;
};

/// The GPU of the handle, or one that is described (for graphs that are never run).
Descriptor describe_device(const std::shared_ptr<const Api>& api, HandlePointer handle);
Descriptor describe_device(const std::shared_ptr<const Api>& api, const std::string& json);

}  // namespace ringspan::attention::cudnn
