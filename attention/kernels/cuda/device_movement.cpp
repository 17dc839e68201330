// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/device_movement.hpp"

#include "attention/kernels/cuda/load_kernels.hpp"
#include "attention/kernels/cuda/takes_vectors.hpp"
#include "attention/kernels/run_axes.hpp"
#include "comm/devices/cuda/kernel_span.hpp"

namespace ringspan::attention::cuda {
namespace {

/// The view with its axes joined.
template <typename Void>
BasicTensorView<Void> with_axes(BasicTensorView<Void> view, const RunAxes& axes) {
  view.batch = axes.batch, view.tokens = axes.tokens, view.heads = axes.heads;
  view.head_dim = axes.run;
  return view;
}

void require_plain(const char* operation, const ConstTensorView& view) {
  RINGSPAN_REQUIRE(view.dtype != DType::reproducible, operation,
                   ": GPUs have no reproducible sums; choose fp64, fp32, bf16 or fp16");
}

Move joined_move(const ConstTensorView& from, const TensorView& to) {
  const RunAxes axes = joined(from, to);
  Move move{with_axes(from, axes), with_axes(to, axes), 1};
  if (takes_vectors(move.from) && takes_vectors(move.to)) move.vector = kVector;
  return move;
}

}  // namespace

DeviceMovement::DeviceMovement(comm::cuda::CudaDevice& device)
    : device_(device),
      module_(load_movement(device.compute().shared_gpu())),
      copy_(module_.find("ringspan_copy")),
      accumulate_(module_.find("ringspan_accumulate")),
      fill_(module_.find("ringspan_fill")),
      merge_out_(module_.find("ringspan_merge_out")),
      merge_rows_(module_.find("ringspan_merge_rows")),
      project_(module_.find("ringspan_project")) {}

template <typename Task>
void DeviceMovement::launch(comm::cuda::FunctionHandle function, std::int64_t threads,
                            const Task& task) {
  module_.launch(device_.compute(), function, comm::cuda::Module::grid_of(threads), task);
  device_.queued();
}

void DeviceMovement::copy(const ConstTensorView& from, const TensorView& to) {
  const comm::cuda::KernelSpan span(device_, "copy");
  require_same_shape("copy", from, to);
  require_plain("copy", from);
  require_plain("copy", to);
  if (to.elements() == 0) return;
  const Move move = joined_move(from, to);
  launch(copy_, threads(move), move);
}

void DeviceMovement::accumulate(const ConstTensorView& from, const TensorView& to) {
  const comm::cuda::KernelSpan span(device_, "accumulate");
  require_same_shape("accumulate", from, to);
  if (from.dtype != DType::bf16 || to.dtype != DType::f32) require_one_accumulator(from, to);
  require_plain("accumulate", to);
  if (to.elements() == 0) return;
  const Move move = joined_move(from, to);
  launch(accumulate_, threads(move), move);
}

void DeviceMovement::fill(const TensorView& to, double value) {
  const comm::cuda::KernelSpan span(device_, "fill");
  require_plain("fill", to);
  if (to.elements() == 0) return;
  Fill fill{with_axes(to, joined(to, to)), value, 1};
  if (takes_vectors(fill.to)) fill.vector = kVector;
  launch(fill_, threads(fill), fill);
}

// Two launches: the results of a row need its old max, which many threads read at their own times.
void DeviceMovement::merge(const Partial& into, const Partial& from) {
  const comm::cuda::KernelSpan span(device_, "merge");
  require_same_shape("merge", from.out, into.out);
  require_one_accumulator(from.out, into.out);
  require_plain("merge", into.out);
  if (into.max.elements() == 0) return;
  Merge merge{into.out, into.max, into.sum, from.out, from.max, from.sum, 1};
  if (takes_vectors(into.out) && takes_vectors(from.out)) merge.vector = kVector;
  launch(merge_out_, threads(merge), merge);
  launch(merge_rows_, rows(merge), merge);
}

void DeviceMovement::project(const ConstTensorView& d_out, const ConstTensorView& delta,
                             const ConstTensorView& lse, const TensorView& to,
                             const TensorView& statistics) {
  const comm::cuda::KernelSpan span(device_, "project");
  require_same_shape("project", d_out, to);
  require_same_shape("project", delta, statistics);
  require_same_shape("project", lse, statistics);
  RINGSPAN_REQUIRE(d_out.dtype == DType::bf16 && to.dtype == DType::bf16, "project: from ",
                   name(d_out.dtype), " to ", name(to.dtype), "; both are to be bf16");
  for (const ConstTensorView& row : {delta, lse, ConstTensorView(statistics)})
    RINGSPAN_REQUIRE(row.dtype == DType::f32, "project: values of rows in ", name(row.dtype),
                     "; they are to be fp32");
  if (to.elements() == 0) return;
  const Projection projection{d_out, delta, lse, to, statistics};
  launch(project_, threads(projection), projection);
}

}  // namespace ringspan::attention::cuda
