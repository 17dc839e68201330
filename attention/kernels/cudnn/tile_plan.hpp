// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "attention/kernels/cudnn/tile_graph.hpp"

namespace ringspan::attention::cudnn {

/// cuDNN on one GPU, queueing on one stream.
class Handle {
 public:
  Handle(std::shared_ptr<const Api> api, CUstream_st* stream);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  HandlePointer pointer() const { return pointer_; }
  const std::shared_ptr<const Api>& api() const { return api_; }

 private:
  const std::shared_ptr<const Api> api_;
  HandlePointer pointer_ = nullptr;
};

/// Where the tensors of a graph are, those of the host excepted, and its values.
struct TileArguments {
  std::vector<std::pair<Id, const void*>> tensors;
  void* workspace = nullptr;
  float scale = 1;
  std::int32_t lo = 0, hi = 0;
};

/// A graph, compiled for a GPU by the best engine that can.
class TilePlan {
 public:
  /// Takes seconds, for cuDNN compiles kernels. Throws not_available, with the last reason, if no
  /// engine can do it, system if one fails.
  static TilePlan make(const Handle& handle, const Descriptor& device, const TileShape& shape);

  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  void queue(const Handle& handle, const TileArguments& arguments) const;

 private:
  TilePlan(const TileShape& shape, std::unique_ptr<TileGraph> graph, Descriptor engine,
           Descriptor plan, std::int64_t workspace_bytes);

  TileShape shape_;
  std::unique_ptr<TileGraph> graph_;
  Descriptor engine_, plan_;
  std::int64_t workspace_bytes_;
};

}  // namespace ringspan::attention::cudnn
