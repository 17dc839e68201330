// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "attention/kernels/cuda/load_kernels.hpp"
#include "attention/kernels/cudnn/api.hpp"
#include "attention/kernels/scalar.hpp"
#include "comm/error.hpp"

namespace ringspan::gpu {
namespace {

using comm::cuda::CudaDevice;
using comm::cuda::Gpu;

constexpr double kDeadline = 60;  // seconds
constexpr double kRun = 0.03;     // seconds of one run
constexpr int kRuns = 7, kMostCalls = 1000;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Looks all the time, for a nap would be part of what is measured.
double run_of(CudaDevice& device, const std::function<void()>& call, int calls) {
  const double start = now();
  for (int i = 0; i < calls; ++i) call();
  while (!device.compute().idle()) {
    if (now() - start > kDeadline)
      throw Error(ErrorKind::timeout, "what was queued on the GPU has not ended in 60 s");
  }
  return (now() - start) / calls;
}

}  // namespace

std::shared_ptr<const Gpu> first_gpu() {
  auto gpu = std::make_shared<const Gpu>(comm::cuda::load_cuda(), 0);
  gpu->open_pool();
  return gpu;
}

bool emulated(const Gpu& gpu) {
  return comm::cuda::device_name(gpu.api(), gpu.ordinal()).starts_with("Emulated");
}

std::string missing(const std::string& family) {
  const auto gpu = first_gpu();
  const std::string reason = attention::cuda::why_not_for_driver(gpu->api());
  if (!emulated(*gpu) && !reason.empty()) return reason;  // the emulated one has its own
  if (family != "cudnn") return {};
  try {
    attention::cudnn::load_cudnn();
    return {};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_available) throw;
    return error.what();
  }
}

comm::Buffer filled(CudaDevice& device, std::int64_t bytes, attention::DType dtype) {
  constexpr std::int64_t kPiece = 1 << 20;  // bytes
  const comm::Buffer piece = device.allocate_values(kPiece), all = device.allocate(bytes);
  attention::with_element(dtype, [&]<typename Element>(std::type_identity<Element>) {
    auto* const elements = reinterpret_cast<Element*>(piece.data());
    for (std::int64_t i = 0; i < kPiece / std::int64_t{sizeof(Element)}; ++i)
      elements[i] =
          attention::convert<Element>(2 * std::sin(0.7 * static_cast<double>(i * i % 9973)));
  });
  for (std::int64_t done = 0; done < bytes; done += kPiece) {
    const std::int64_t part = std::min(kPiece, bytes - done);
    device.copy(comm::slice(all, done, part), comm::slice(piece, 0, part));
  }
  return all;
}

double seconds_of(CudaDevice& device, const std::function<void()>& call) {
  const comm::cuda::Current current(device.compute().gpu());
  const bool real = !emulated(device.compute().gpu());
  run_of(device, call, 1);
  const double first = run_of(device, call, 1);
  const int calls = real ? static_cast<int>(std::clamp(kRun / first, 1.0, double{kMostCalls})) : 1;
  std::vector<double> runs(real ? kRuns : 1);
  for (double& seconds : runs) seconds = run_of(device, call, calls);
  std::nth_element(runs.begin(), runs.begin() + runs.size() / 2, runs.end());
  return runs[runs.size() / 2];
}

void record(const std::string& figure, double value) {
  testing::Test::RecordProperty(figure, concat(value));
}

}  // namespace ringspan::gpu
