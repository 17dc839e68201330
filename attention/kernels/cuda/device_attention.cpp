// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/device_attention.hpp"

#include <string>

#include "attention/kernels/cuda/attention_launch.hpp"
#include "attention/kernels/cuda/load_kernels.hpp"
#include "attention/kernels/cuda/plain_attention.hpp"
#include "attention/kernels/cuda/sink_gradient.cuh"
#include "attention/kernels/cuda/takes_vectors.hpp"
#include "comm/devices/cuda/kernel_span.hpp"

namespace ringspan::attention::cuda {
namespace {

using comm::cuda::Grid;
using comm::cuda::Module;

/// Of a tile, for the plain kernels.
template <typename Block>
PlainAttention plain_task(const Block& block, const Tile& tile) {
  PlainAttention task{};
  task.q = block.q, task.k = block.k, task.v = block.v;
  task.tile = tile;
  task.scale = block.logits.scale;
  task.softcap = block.logits.softcap.value_or(0);
  return task;
}

}  // namespace

DeviceAttention::DeviceAttention(comm::cuda::CudaDevice& device)
    : device_(device),
      module_(load_attention(device.compute().shared_gpu())),
      three_{{find_three("bf16", 64), find_three("bf16", 128), find_three("bf16", 256)},
             {find_three("f16", 64), find_three("f16", 128), find_three("f16", 256)}},
      plain_forward_(module_.find("ringspan_plain_forward")),
      plain_backward_queries_(module_.find("ringspan_plain_backward_queries")),
      plain_backward_keys_(module_.find("ringspan_plain_backward_keys")),
      finalize_(module_.find("ringspan_finalize")),
      delta_(module_.find("ringspan_delta")),
      sink_gradient_(module_.find("ringspan_sink_gradient")) {}

DeviceAttention::Three DeviceAttention::find_three(const char* dtype, int dim) const {
  const auto find = [&](const char* pass, unsigned shared_bytes) {
    const std::string name =
        std::string("attention_") + pass + "_" + dtype + "_" + std::to_string(dim);
    return module_.find(name.c_str(), shared_bytes);
  };
  return {find("forward", forward_shared_bytes(dim)),
          find("backward_queries", backward_shared_bytes(dim)),
          find("backward_keys", backward_shared_bytes(dim))};
}

const DeviceAttention::Three& DeviceAttention::three(DType dtype, int dim) const {
  return three_[dtype == DType::f16][dim == 64 ? 0 : dim == 128 ? 1 : 2];
}

template <typename Task>
void DeviceAttention::launch(comm::cuda::FunctionHandle function, const Grid& grid,
                             const Task& task) {
  module_.launch(device_.compute(), function, grid, task);
  device_.queued();
}

void DeviceAttention::forward(const ForwardBlock& block, const Partial& partial) {
  const comm::cuda::KernelSpan span(device_, "attention_forward");
  const int dim = kernel_dim(block.q.dtype, block.q.head_dim, block.v.head_dim);
  for (const Tile& tile : block.tiles) {
    if (dim > 0) {
      launch(three(block.q.dtype, dim).forward, forward_grid(dim, block.q, tile),
             forward_arguments(block, partial, tile));
      continue;
    }
    PlainAttention task = plain_task(block, tile);
    task.out = partial.out, task.max = partial.max, task.sum = partial.sum;
    launch(plain_forward_, Module::grid_of(query_rows(task)), task);
  }
}

void DeviceAttention::backward(const BackwardBlock& block, const TensorView& dq,
                               const TensorView& dk, const TensorView& dv) {
  const comm::cuda::KernelSpan span(device_, "attention_backward");
  const int dim = kernel_dim(block.q.dtype, block.q.head_dim, block.v.head_dim);
  for (const Tile& tile : block.tiles) {
    if (dim > 0) {
      const Three& kernels = three(block.q.dtype, dim);
      const AttentionArguments arguments = backward_arguments(block, dq, dk, dv, tile);
      launch(kernels.backward_queries, backward_queries_grid(dim, block.q, tile), arguments);
      launch(kernels.backward_keys, backward_keys_grid(dim, block.k, tile), arguments);
      continue;
    }
    PlainAttention task = plain_task(block, tile);
    task.d_out = block.d_out, task.lse = block.lse, task.delta = block.delta;
    task.dq = dq, task.dk = dk, task.dv = dv;
    launch(plain_backward_queries_, Module::grid_of(query_rows(task)), task);
    launch(plain_backward_keys_, Module::grid_of(key_rows(task)), task);
  }
}

void DeviceAttention::delta(const ConstTensorView& out, const ConstTensorView& d_out,
                            const ConstTensorView& lse, const ConstTensorView* sinks,
                            const TensorView& delta, const TensorView* d_sinks) {
  const comm::cuda::KernelSpan span(device_, "delta");
  if (delta.elements() == 0) return;
  launch(delta_, Module::grid_of(delta.elements()), Delta{out, d_out, lse, delta});
  if (!sinks || !d_sinks) return;
  const Grid heads{.x = static_cast<unsigned>(sinks->heads),
                   .threads = kSinkThreads,
                   .shared_bytes = kSinkSharedBytes};
  launch(sink_gradient_, heads, SinkGradient{*sinks, lse, delta, *d_sinks});
}

void DeviceAttention::finalize(const Partial& partial, const ConstTensorView* sinks,
                               const TensorView& out, const TensorView& lse) {
  const comm::cuda::KernelSpan span(device_, "finalize");
  Finalize task{
      partial.out, partial.max, partial.sum, sinks ? *sinks : ConstTensorView{}, out, lse, 1};
  if (takes_vectors(partial.out) && takes_vectors(out)) task.vector = kVector;
  launch(finalize_, Module::grid_of(threads(task)), task);
}

}  // namespace ringspan::attention::cuda
