// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cudnn/tile_plan.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "comm/error.hpp"

namespace ringspan::attention::cudnn {

Handle::Handle(std::shared_ptr<const Api> api, CUstream_st* stream) : api_(std::move(api)) {
  check(*api_, api_->create_handle(&pointer_), "cudnnCreate");
  if (const Status status = api_->set_stream(pointer_, stream)) {
    api_->destroy_handle(pointer_);
    check(*api_, status, "cudnnSetStream");
  }
}

Handle::~Handle() { api_->destroy_handle(pointer_); }

TilePlan::TilePlan(const TileShape& shape, std::unique_ptr<TileGraph> graph, Descriptor engine,
                   Descriptor plan, std::int64_t workspace_bytes)
    : shape_(shape),
      graph_(std::move(graph)),
      engine_(std::move(engine)),
      plan_(std::move(plan)),
      workspace_bytes_(workspace_bytes) {}

TilePlan TilePlan::make(const Handle& handle, const Descriptor& device, const TileShape& shape) {
  auto graph = std::make_unique<TileGraph>(handle.api(), shape);
  std::string reason = "cuDNN has no engine for this";
  for (Descriptor& engine : graph->engines(device)) {
    try {
      Descriptor plan(handle.api(), Kind::execution_plan);
      plan.set(Attribute::plan_engine_config, engine);
      plan.set(Attribute::plan_device, device);
      plan.finalize("plan");
      const std::int64_t workspace_bytes = plan.get_int64(Attribute::plan_workspace_bytes);
      return TilePlan(shape, std::move(graph), std::move(engine), std::move(plan), workspace_bytes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_available) throw;
      reason = error.what();
    }
  }
  throw Error(ErrorKind::not_available, reason);
}

void TilePlan::queue(const Handle& handle, const TileArguments& arguments) const {
  float scale = arguments.scale, fill = -HUGE_VALF;
  std::int32_t right_shift = arguments.hi, left_bound = 1 - arguments.lo;
  std::vector<Id> ids;
  std::vector<const void*> pointers;
  const auto add = [&](Id id, const void* value) {
    ids.push_back(id);
    pointers.push_back(value);
  };
  for (const auto& [id, data] : arguments.tensors) add(id, data);
  add(Id::scale, &scale);
  if (shape_.lower || shape_.upper) add(Id::fill, &fill);
  if (shape_.upper) add(Id::right_shift, &right_shift);
  if (shape_.lower) add(Id::left_bound, &left_bound);
  Descriptor pack(handle.api(), Kind::variant_pack);
  pack.set(Attribute::pack_ids, Type::int64, std::span<const Id>(ids));
  pack.set(Attribute::pack_pointers, Type::void_pointer, std::span<const void* const>(pointers));
  pack.set(Attribute::pack_workspace, Type::void_pointer, arguments.workspace);
  pack.finalize("arguments");
  check(*handle.api(), handle.api()->execute(handle.pointer(), plan_.pointer(), pack.pointer()),
        "execute");
}

}  // namespace ringspan::attention::cudnn
