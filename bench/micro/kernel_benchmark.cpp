// SPDX-License-Identifier: Apache-2.0
// The cpu kernels on one core: forward and backward beside the peak of fused multiply-adds, merge
// and finalize beside memcpy. The counters are of the fastest call, the times are means.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "attention/kernels.hpp"
#include "bench/fma_peak.hpp"
#include "comm/devices/host.hpp"

namespace ringspan::attention {
namespace {

constexpr std::int64_t kHeads = 4;
constexpr double kPeakSeconds = 0.05;

/// Everything that a kernel may want, for one batch entry of kHeads heads in fp32.
struct Attention {
  Attention(std::int64_t head_dim, std::int64_t tokens, bool causal)
      : tiles(visible_tiles({{0, 1, tokens}}, {{0, 1, tokens}}, {tokens},
                            causal ? Mask{.right = 0} : Mask{})),
        logits{1 / std::sqrt(static_cast<double>(head_dim))},
        q(*device, DType::f32, 1, tokens, kHeads, head_dim) {
    const auto tensor = [&](std::int64_t dim) {
      return Tensor(*device, DType::f32, 1, tokens, kHeads, dim);
    };
    for (Tensor* each : {&k, &v, &d_out, &out, &other_out, &dq, &dk, &dv}) *each = tensor(head_dim);
    for (Tensor* each : {&max, &sum, &other_max, &other_sum, &lse, &delta}) *each = tensor(1);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (const Tensor* each : {&q, &k, &v, &d_out}) {
      auto* values = static_cast<float*>(each->view().data);
      std::generate_n(values, each->view().elements(), [&] { return normal(random); });
    }
    kernels->prepare(
        {.heads = kHeads, .kv_heads = kHeads, .head_dim = head_dim, .value_dim = head_dim});
    for (const Tensor* each : {&out, &sum, &dq, &dk, &dv}) kernels->fill(*each, 0);
    kernels->fill(max, -std::numeric_limits<double>::infinity());
    forward();  // so that there are an lse and a delta
    kernels->finalize({out, max, sum}, nullptr, other_out, lse);
    kernels->delta(other_out, d_out, lse, nullptr, delta, nullptr);
    kernels->copy(max, other_max);
    kernels->copy(sum, other_sum);
  }

  void forward() const { kernels->forward({q, k, v, tiles, logits}, {out, max, sum}); }
  void backward() const {
    kernels->backward({q, k, v, tiles, logits, lse, delta, d_out}, dq, dk, dv);
  }
  void merge() const { kernels->merge({out, max, sum}, {other_out, other_max, other_sum}); }
  void finalize() const { kernels->finalize({out, max, sum}, nullptr, other_out, lse); }
  void copy() const {
    std::memcpy(other_out.view().data, out.view().data, static_cast<std::size_t>(out_bytes()));
  }

  double flops() const {
    return 4.0 * static_cast<double>(visible_pairs(tiles) * kHeads * q.view().head_dim);
  }
  std::int64_t out_bytes() const { return out.view().bytes(); }

  std::unique_ptr<comm::Device> device = comm::make_host_device();
  std::unique_ptr<Kernels> kernels = make_kernels("cpu", *device);
  std::vector<Tile> tiles;
  Logits logits;
  Tensor q, k, v, d_out;
  Tensor out, max, sum, other_out, other_max, other_sum;
  Tensor lse, delta, dq, dk, dv;
};

/// Seconds of the fastest call in the benchmark's loop: peaks are of the fastest loops, too.
template <typename Call>
double run(benchmark::State& state, const comm::Device& device, const Call& call) {
  double fastest = std::numeric_limits<double>::infinity();
  for (auto _ : state) {
    const double start = device.now();
    call();
    const double seconds = device.now() - start;
    state.SetIterationTime(seconds);
    fastest = std::min(fastest, seconds);
  }
  return fastest;
}

template <typename Pass>
void measure_flops(benchmark::State& state, double flops, const comm::Device& device,
                   const Pass& pass) {
  const double before = bench::fma_peak_gflops(kPeakSeconds);
  const double gflops = 1e-9 * flops / run(state, device, pass);
  const double after = bench::fma_peak_gflops(kPeakSeconds);
  state.counters["gflops"] = gflops;
  state.counters["of_peak"] = gflops / std::max(before, after);
}

void forward(benchmark::State& state) {
  const Attention attention(state.range(0), state.range(1), state.range(2) != 0);
  measure_flops(state, attention.flops(), *attention.device, [&] { attention.forward(); });
}

void backward(benchmark::State& state) {
  const Attention attention(state.range(0), state.range(1), state.range(2) != 0);
  measure_flops(state, 2.5 * attention.flops(), *attention.device, [&] { attention.backward(); });
}

/// Bytes read and written per second, of the call and of a memcpy of the output.
template <typename Call>
void measure_bytes(benchmark::State& state, std::int64_t bytes, const Attention& attention,
                   const Call& call) {
  const double gbytes = 1e-9 * static_cast<double>(bytes) / run(state, *attention.device, call);
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 20; ++i) {
    const double start = attention.device->now();
    attention.copy();
    fastest = std::min(fastest, attention.device->now() - start);
  }
  state.counters["gbytes"] = gbytes;
  state.counters["of_memcpy"] =
      gbytes / (2e-9 * static_cast<double>(attention.out_bytes()) / fastest);
}

void merge(benchmark::State& state) {
  const Attention attention(state.range(0), state.range(1), true);
  measure_bytes(state, 3 * attention.out_bytes(), attention, [&] { attention.merge(); });
}

void finalize(benchmark::State& state) {
  const Attention attention(state.range(0), state.range(1), true);
  measure_bytes(state, 2 * attention.out_bytes(), attention, [&] { attention.finalize(); });
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"head_dim", "tokens", "causal"})
      ->ArgsProduct({{64, 128}, {64, 512, 4096}, {0, 1}})
      ->Unit(benchmark::kMillisecond)
      ->UseManualTime();
}

void row_shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"head_dim", "tokens"})
      ->ArgsProduct({{64, 128}, {512, 4096}})
      ->Unit(benchmark::kMicrosecond)
      ->UseManualTime();
}

BENCHMARK(forward)->Apply(shapes);
BENCHMARK(backward)->Apply(shapes);
BENCHMARK(merge)->Apply(row_shapes);
BENCHMARK(finalize)->Apply(row_shapes);

}  // namespace
}  // namespace ringspan::attention

BENCHMARK_MAIN();
