// SPDX-License-Identifier: Apache-2.0
// What is there: recorded, and judged by nobody.
#include <string>

#include "attention/kernels/cuda/image.hpp"
#include "attention/kernels/cudnn/api.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"
#include "gtest/gtest.h"
#include "tests/gpu/gpu.hpp"

namespace ringspan::gpu {
namespace {

TEST(VersionsTest, OfWhatIsThere) {
  const auto gpu = first_gpu();
  const comm::cuda::Api& api = gpu->api();
  int driver = 0;
  gpu->check(api.driver_version(&driver), "cuDriverGetVersion");
  RecordProperty("gpu", comm::cuda::device_name(api, gpu->ordinal()));
  RecordProperty("gpus", comm::cuda::device_count(api));
  RecordProperty("driver_cuda", concat(driver / 1000, '.', driver % 1000 / 10));
  RecordProperty("emulated", emulated(*gpu) ? "true" : "false");
  RecordProperty("kernels_for", std::string(attention::cuda::kernel_targets()));
  RecordProperty("no_kernels", missing("cuda"));
  for (const char* transport : {"nccl", "cuda_ipc"}) {
    const comm::Backend& backend = comm::backend(transport);
    const std::string reason = backend.unavailable();
    RecordProperty(transport, reason.empty() ? backend.found() : "not available: " + reason);
  }
  try {
    RecordProperty("cudnn", attention::cudnn::version_text(*attention::cudnn::load_cudnn()));
  } catch (const Error& error) {
    RecordProperty("cudnn", concat("not available: ", error.what()));
  }
}

}  // namespace
}  // namespace ringspan::gpu
