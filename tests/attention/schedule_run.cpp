// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/schedule_run.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "comm/error.hpp"

namespace ringspan::attention {

std::string describe(const NamedSchedule& schedule) {
  std::string text;
  const auto add = [&](const auto&... parts) {
    text += concat(text.empty() ? "(" : ", ", parts...);
  };
  const ScheduleOptions& options = schedule.options;
  if (options.layout) add(name(*options.layout));
  if (options.ulysses_degree) add("ulysses ", options.ulysses_degree);
  if (options.placement == Placement::ring_inner) add("ring_inner");
  if (options.all_to_all == comm::AllToAllAlgorithm::hierarchical) add("hierarchical");
  if (options.inner_ring) add("inner ring ", options.inner_ring);
  if (options.backward == BackwardForm::q) add("q travels");
  if (options.backward == BackwardForm::automatic) add("kv or q travels");
  if (options.head_groups) add(options.head_groups, " head groups");
  if (options.resends) add("resends");
  return schedule.name + text + (text.empty() ? "" : ")");
}

std::vector<NamedSchedule> all_schedules(int ranks) {
  std::vector<NamedSchedule> all{{"ring"}, {"striped"}, {"zigzag"}, {"ulysses"}};
  for (const LayoutKind layout :
       {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag}) {
    all.push_back({"all_gather_kv", {.layout = layout}});
  }
  for (int degree = 1; degree <= ranks; ++degree) {
    if (ranks % degree != 0) continue;
    all.push_back({"usp", {.ulysses_degree = degree}});
    if (degree > 1 && degree < ranks) {  // else the placements are the same
      all.push_back({"usp", {.ulysses_degree = degree, .placement = Placement::ring_inner}});
    }
  }
  return all;
}

std::vector<NamedSchedule> more_schedules(int ranks) {
  std::vector<NamedSchedule> more{{"ring", {.backward = BackwardForm::q}},
                                  {"bidirectional_ring", {.layout = LayoutKind::contiguous}},
                                  {"dist_flash"},
                                  {"ring_self_attention"},
                                  {"ulysses_overlapped"},
                                  {"ulysses_overlapped", {.resends = true}}};
  for (int inner = 2; inner < ranks; ++inner) {
    if (ranks % inner != 0) continue;
    more.push_back({"double_ring", {.inner_ring = inner}});
    more.push_back(
        {"double_ring",
         {.layout = LayoutKind::contiguous, .inner_ring = inner, .backward = BackwardForm::q}});
    if (ranks / inner % 2 != 0) continue;
    more.push_back({"usp",
                    {.ulysses_degree = ranks / inner / 2,
                     .inner_ring = inner,
                     .backward = BackwardForm::automatic}});
  }
  return more;
}

std::vector<NamedSchedule> every_schedule(int ranks, const Mask& mask) {
  std::vector<NamedSchedule> every = all_schedules(ranks);
  for (NamedSchedule& schedule : more_schedules(ranks)) every.push_back(std::move(schedule));
  if (mask.left && mask.right) every.push_back({"halo"});
  return every;
}

std::vector<int> rank_counts() {
#ifdef RINGSPAN_SANITIZED
  std::vector<int> counts{4};
#else
  std::vector<int> counts{1, 2, 3, 4, 5, 7, 8};
#endif
  std::erase_if(counts, [](int ranks) { return !comm::test::enough_processes(ranks); });
  return counts;
}

int ulysses_degree(const NamedSchedule& schedule, int ranks) {
  if (schedule.name == "usp") return schedule.options.ulysses_degree;
  return schedule_entry(schedule.name).takes_all_to_all ? ranks : 1;
}

Problem make_problem(std::string_view mask, std::int64_t length, const Shape& shape) {
  Problem problem;
  problem.shape = shape;
  problem.mask = parse_mask(mask);
  problem.sequence.length = length;
  if (problem.mask.documents) {
    for (std::int64_t left = length - length / 8, next = 0; left > 0; left -= next) {
      problem.sequence.documents.push_back(next = std::min(left, (next * 5 + 3) % 18));
    }
  }
  return problem;
}

std::string describe(const Problem& problem) {
  const Shape& shape = problem.shape;
  std::string text = concat(name(problem.mask), ", ", problem.sequence.length, " tokens, batch ",
                            shape.batch, ", heads ", shape.heads, "/", shape.kv_heads,
                            ", head_dim ", shape.head_dim, ", ", name(shape.dtype));
  if (shape.value_dim != shape.head_dim) text += concat(", value_dim ", shape.value_dim);
  if (problem.softcap) text += concat(", softcap ", *problem.softcap);
  if (problem.sinks) text += ", sinks";
  return text;
}

WholeResults::WholeResults(const Problem& problem) {
  const Shape& s = problem.shape;
  const std::int64_t tokens = problem.sequence.length;
  out = Array(s.batch, tokens, s.heads, s.value_dim);
  lse = Array(s.batch, tokens, s.heads, 1);
  dq = Array(s.batch, tokens, s.heads, s.head_dim);
  dk = Array(s.batch, tokens, s.kv_heads, s.head_dim);
  dv = Array(s.batch, tokens, s.kv_heads, s.value_dim);
  if (problem.sinks) d_sinks = Array(1, 1, s.heads, 1);
}

void WholeResults::share() {
  if (comm::test::on_threads()) return;
  Array* const arrays[] = {&out, &lse, &dq, &dk, &dv, &d_sinks};
  std::string mine;
  for (const Array* array : arrays) {
    const auto bytes = std::as_bytes(std::span(array->values));
    mine.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const std::vector<std::string> all = comm::test::gather(mine);
  std::size_t at = 0;
  for (Array* array : arrays) {
    for (double& value : array->values) {
      value = 0;  // as is, in every process but one
      for (const std::string& process : all) {
        double part;
        std::memcpy(&part, process.data() + at, sizeof part);
        value += part;
      }
      at += sizeof value;
    }
  }
}

RankTensors::RankTensors(comm::Device& device, const Problem& problem, const Shard& shard,
                         const OracleInputs& whole, std::optional<DType> gradients)
    : tokens(positions(shard)) {
  const Shape& s = problem.shape;
  const auto input = [&](const Array& array) {
    return make_tensor(device, array, tokens, s.dtype);
  };
  q = input(whole.q);
  k = input(whole.k);
  v = input(whole.v);
  d_out = input(whole.d_out);
  const auto result = [&](DType dtype, std::int64_t heads, std::int64_t dim) {
    return Tensor(device, dtype, s.batch, std::ssize(tokens), heads, dim);
  };
  out = result(s.dtype, s.heads, s.value_dim);
  lse = result(DType::f32, s.heads, 1);
  dq = result(gradients.value_or(s.dtype), s.heads, s.head_dim);
  dk = result(gradients.value_or(s.dtype), s.kv_heads, s.head_dim);
  dv = result(gradients.value_or(s.dtype), s.kv_heads, s.value_dim);
  if (!problem.sinks) return;
  sinks = Tensor(device, DType::f32, 1, 1, s.heads, 1);
  for (std::int64_t h = 0; h < s.heads; ++h) {
    static_cast<float*>(sinks.view().data)[h] = static_cast<float>(whole.sinks[h]);
  }
  d_sinks = Tensor(device, DType::f32, 1, 1, s.heads, 1);
}

Inputs RankTensors::inputs() const { return {q, k, v, sinks}; }

Gradients RankTensors::gradients() const { return {dq, dk, dv, d_sinks}; }

void RankTensors::forget_results() const {
  for (const Tensor* result : {&out, &lse, &dq, &dk, &dv, &d_sinks}) {
    const TensorView view = *result;  // all bits set are a NaN of every type
    std::fill_n(static_cast<std::uint8_t*>(view.data), view.bytes(), std::uint8_t{0xff});
  }
}

void RankTensors::put_into(WholeResults& whole, bool with_d_sinks) const {
  put_tokens(read(out), tokens, whole.out);
  put_tokens(read(lse), tokens, whole.lse);
  put_tokens(read(dq), tokens, whole.dq);
  put_tokens(read(dk), tokens, whole.dk);
  put_tokens(read(dv), tokens, whole.dv);
  if (with_d_sinks) whole.d_sinks = read(d_sinks);
}

testing::AssertionResult matches(const RankTensors& actual, const OracleResults& expected,
                                 const Problem& problem, bool rounded, double factor) {
  const auto compare = [&](const char* what, const Tensor& tensor, const Array& whole,
                           const Array& unit, const Bound& bound) {
    return close_tokens(what, tensor, actual.tokens, whole, unit, bound);
  };
  const OracleResults& e = expected;
  const Bound fp32{}, dtype{factor, problem.shape.dtype};
  const DType stored = rounded ? problem.shape.dtype : actual.dq.view().dtype;
  // The bound of a gradient is as much tighter as its unit exaggerates more.
  const double gradient_factor = factor == fp32.factor ? kGradientFactor : factor;
  const Bound gradient{gradient_factor, stored};
  for (const testing::AssertionResult& result :
       {compare("out", actual.out, e.out, e.out_unit, dtype),
        compare("lse", actual.lse, e.lse, e.lse_unit, fp32),
        compare("dq", actual.dq, e.dq, e.dq_unit, gradient),
        compare("dk", actual.dk, e.dk, e.dk_unit, gradient),
        compare("dv", actual.dv, e.dv, e.dv_unit, {factor, stored})}) {
    if (!result) return result;
  }
  if (!problem.sinks) return testing::AssertionSuccess();
  return close("d_sinks", read(actual.d_sinks), e.d_sinks, e.d_sinks_unit, {gradient_factor});
}

RankTensors run_rank(Schedule& schedule, const comm::Communicator& comm, const Problem& problem,
                     const OracleInputs& inputs, std::optional<DType> gradients) {
  RankTensors tensors(comm.device(), problem, schedule.shard(problem.sequence), inputs, gradients);
  run_rank(schedule, problem, tensors);
  return tensors;
}

void run_rank(Schedule& schedule, const Problem& problem, const RankTensors& tensors) {
  const std::unique_ptr<Plan> plan = schedule.plan(problem);
  const std::unique_ptr<Saved> saved = plan->make_saved();
  plan->forward(tensors.inputs(), tensors.outputs(), saved.get());
  plan->backward(tensors.inputs(), tensors.outputs(), *saved, tensors.d_out, tensors.gradients());
}

WholeResults run(const NamedSchedule& schedule, const Problem& problem, const OracleInputs& inputs,
                 const comm::LaunchOptions& options, std::string_view kernels) {
  WholeResults whole(problem);
  comm::test::launch(options, [&](const comm::Communicator& comm) {
    const std::unique_ptr<Kernels> local = make_kernels(kernels, comm.device());
    const std::unique_ptr<Schedule> made =
        make_schedule(schedule.name, comm, *local, schedule.options);
    run_rank(*made, comm, problem, inputs).put_into(whole, problem.sinks && comm.rank() == 0);
  });
  whole.share();
  return whole;
}

testing::AssertionResult run_and_compare(const NamedSchedule& schedule, const Problem& problem,
                                         const OracleInputs& inputs, const OracleResults& expected,
                                         const comm::LaunchOptions& options,
                                         std::string_view kernels) {
  return comm::test::on_every_rank(options, [&](const comm::Communicator& comm) {
    const std::unique_ptr<Kernels> local = make_kernels(kernels, comm.device());
    const std::unique_ptr<Schedule> made =
        make_schedule(schedule.name, comm, *local, schedule.options);
    return matches(run_rank(*made, comm, problem, inputs), expected, problem);
  });
}

}  // namespace ringspan::attention
