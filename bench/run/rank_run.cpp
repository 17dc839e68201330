// SPDX-License-Identifier: Apache-2.0
#include "bench/run/rank_run.hpp"

#include "bench/ask/mask_text.hpp"
#include "bench/oracle/input_values.hpp"
#include "bench/run/filter_transport.hpp"
#include "comm/collectives.hpp"

namespace ringspan::bench {

using attention::DType;
using attention::Shape;
using attention::Tensor;

attention::Problem problem(const Point& point, const MeasureOptions& options) {
  const MaskText mask = parse_mask_text(point.mask);
  attention::Problem problem;
  problem.shape = {point.batch,    point.heads,     point.kv_heads,
                   point.head_dim, point.value_dim, attention::dtype(point.dtype)};
  problem.shape.reproducible = point.kernel == "reproducible";
  problem.sequence = sequence(mask, point.sequence_length, options.seed);
  problem.mask = mask.mask;
  problem.softmax_scale = options.softmax_scale;
  problem.softcap = options.softcap;
  problem.sinks = options.sinks;
  attention::require_valid(problem);
  return problem;
}

std::vector<attention::Traffic> closed_form(const Point& point, const MeasureOptions& options,
                                            const comm::World& world) {
  const attention::Problem asked = problem(point, options);
  const attention::ScheduleOptions how = schedule_options(point);
  std::vector<attention::Traffic> traffic(world.places.size());
  const auto add = [&](const std::vector<attention::Traffic>& pass) {
    for (std::size_t rank = 0; rank < traffic.size(); ++rank) traffic[rank] += pass[rank];
  };
  if (point.has_forward()) add(attention::forward_traffic(point.schedule, how, asked, world));
  if (point.has_backward()) add(attention::backward_traffic(point.schedule, how, asked, world));
  return traffic;
}

RankRun::RankRun(const comm::Communicator& world, const Point& point, const MeasureOptions& options,
                 KernelWatch watch)
    : world_(world), point_(point), problem_(problem(point, options)), seed_(options.seed) {
  comm::Device& device = world.device();
  kernels_ = make_switched_kernels(attention::make_kernels(point.kernel, device),
                                   attention::make_kernels("null", device), device, mode_, clock_,
                                   std::move(watch));
  const comm::Communicator filtered =
      world.through(make_filter_transport(world.transport(), mode_, clock_));
  schedule_ =
      attention::make_schedule(point.schedule, filtered, *kernels_, schedule_options(point));
  shard_ = schedule_->shard(problem_.sequence);
  plan_ = schedule_->plan(problem_);  // refuses what is illegal before the inputs cost anything
  if (point.has_backward()) saved_ = plan_->make_saved();

  const Shape& shape = problem_.shape;
  const std::int64_t tokens = attention::tokens(shard_);
  const InputValues values(seed_);
  const auto tensor = [&](std::int64_t heads, std::int64_t head_dim) {
    return Tensor(device, shape.dtype, shape.batch, tokens, heads, head_dim);
  };
  const auto filled = [&](InputTensor which, std::int64_t heads, std::int64_t head_dim) {
    if (device.cluster()) return tensor(heads, head_dim);  // there is nothing to be filled
    // Planning and filling take their time on long sequences and talk to nobody; here a rank learns
    // that the point has been given up.
    comm::barrier(world_);
    Tensor filled = tensor(heads, head_dim);
    values.fill(which, shard_, *kernels_, device, filled);
    return filled;
  };
  q_ = filled(InputTensor::q, shape.heads, shape.head_dim);
  k_ = filled(InputTensor::k, shape.kv_heads, shape.head_dim);
  v_ = filled(InputTensor::v, shape.kv_heads, shape.value_dim);
  out_ = tensor(shape.heads, shape.value_dim);
  if (problem_.sinks) {
    sinks_ = Tensor(device, DType::f32, 1, 1, shape.heads, 1);
    if (!device.cluster()) values.fill(InputTensor::sinks, {{0, 1, 1}}, *kernels_, device, sinks_);
  }
  if (!point.has_backward()) return;
  d_out_ = filled(InputTensor::d_out, shape.heads, shape.value_dim);
  dq_ = tensor(shape.heads, shape.head_dim);
  dk_ = tensor(shape.kv_heads, shape.head_dim);
  dv_ = tensor(shape.kv_heads, shape.value_dim);
  if (problem_.sinks) d_sinks_ = Tensor(device, DType::f32, 1, 1, shape.heads, 1);
  if (!point.has_forward()) forward();  // once, to be differentiated
}

void RankRun::forward() { plan_->forward({q_, k_, v_, sinks_}, {out_.view()}, saved_.get()); }

void RankRun::backward() {
  plan_->backward({q_, k_, v_, sinks_}, {out_.view()}, *saved_, d_out_,
                  {dq_.view(), dk_.view(), dv_.view(), d_sinks_.view()});
}

namespace {

comm::Traffic difference(const comm::Traffic& after, const comm::Traffic& before) {
  return {after.bytes_sent - before.bytes_sent,
          after.inter_node_bytes_sent - before.inter_node_bytes_sent,
          after.messages_sent - before.messages_sent, after.bytes_copied - before.bytes_copied};
}

}  // namespace

double RankRun::run(const RunMode& mode, const std::function<void()>& begins) {
  comm::Device& device = world_.device();
  comm::barrier(world_);
  if (!device.cluster()) device.synchronize(world_.deadline());  // a GPU's host has not met anybody
  mode_ = mode;
  clock_.reset();
  const comm::Traffic before = world_.traffic();
  if (begins) begins();
  started_ = device.now();
  if (point_.has_forward()) forward();
  if (point_.has_backward()) backward();
  device.synchronize(world_.deadline());
  const double seconds = device.now() - started_;
  sent_ = difference(world_.traffic(), before);
  return seconds;
}

CheckedTensors RankRun::results() const {
  CheckedTensors tensors{out_, {}, {}, {}};
  if (point_.has_backward()) tensors = {out_, dq_, dk_, dv_};
  return tensors;
}

Deviation RankRun::check() const {
  return check_rows(problem_, seed_, shard_, results(), world_.device(), *kernels_);
}

std::int64_t RankRun::sampled_rows() const {
  return bench::sampled_rows(problem_, seed_, results());
}

Deviation RankRun::check_sums() const {
  if (!point_.has_backward()) return {};
  return check_dv_sum(world_, problem_, seed_, shard_, dv_, *kernels_);
}

std::int64_t RankRun::sampled_keys() const { return bench::sampled_keys(problem_, seed_); }

attention::Traffic RankRun::closed_form() const {
  const attention::ScheduleOptions options = schedule_options(point_);
  attention::Traffic traffic;
  if (point_.has_forward()) {
    traffic += attention::forward_traffic(point_.schedule, options, problem_, world_.world(),
                                          world_.rank());
  }
  if (point_.has_backward()) {
    traffic += attention::backward_traffic(point_.schedule, options, problem_, world_.world(),
                                           world_.rank());
  }
  return traffic;
}

}  // namespace ringspan::bench
