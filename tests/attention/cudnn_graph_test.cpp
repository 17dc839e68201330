// SPDX-License-Identifier: Apache-2.0
// Whether cuDNN itself takes the graphs and has engines for them, asked about GPUs that are
// described to it; nothing is run. It needs cuDNN 9.27 or newer and no GPU, but some libcuda.so.1
// that cuDNN can link: see attention/kernels/cudnn/README.md.
#include <optional>
#include <string>

#include "attention/kernels/cudnn/tile_plan.hpp"
#include "comm/error.hpp"
#include "gtest/gtest.h"

namespace ringspan::attention::cudnn {
namespace {

struct Gpu {
  const char* name;
  int version, multiprocessors, most_shared_bytes;
};
constexpr Gpu kGpus[] = {
    {"A100", 800, 108, 166912}, {"H100", 900, 132, 232448}, {"B200", 1000, 148, 232448}};

// As cuDNN writes it of a GPU that is there.
std::string description(const Gpu& gpu) {
  return concat(
      R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)",
      R"("multiProcessorCount":)", gpu.multiprocessors, R"(,"smCountOrigin":0,"warpSize":32,)",
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":)", gpu.most_shared_bytes,
      R"(,"oversizedSharedMemoryPerBlock":0,"reservedSharedMemoryPerBlock":1024,)",
      R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)",
      R"("pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,)",
      R"("memClockRateKHz":2619000,"memoryBusWidth":5120,"l2CacheSize":52428800,"deviceName":")",
      gpu.name, R"(","deviceVer":)", gpu.version,
      R"(,"driverVer":13000,"cudaDeviceId":0,"totalGlobalMem":80000000000})");
}

/// Packed, every `step`-th token of longer tensors.
TileShape make_shape(std::int64_t queries, std::int64_t keys, std::int64_t head_dim,
                     std::int64_t value_dim, std::int64_t step = 1) {
  TileShape s{.batch = 2,
              .queries = queries,
              .keys = keys,
              .heads = 8,
              .kv_heads = 2,
              .head_dim = head_dim,
              .value_dim = value_dim};
  s.q = {queries * step * s.heads * head_dim, step * s.heads * head_dim, head_dim};
  s.k = {keys * step * s.kv_heads * head_dim, step * s.kv_heads * head_dim, head_dim};
  s.v = {keys * step * s.kv_heads * value_dim, step * s.kv_heads * value_dim, value_dim};
  s.d_out = {queries * step * s.heads * value_dim, step * s.heads * value_dim, value_dim};
  return s;
}

constexpr TileShape::Pass kPasses[] = {TileShape::Pass::forward, TileShape::Pass::backward};

class CudnnGraphTest : public testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    try {
      api_ = load_cudnn();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  std::size_t engines(const TileShape& shape) {
    return TileGraph(api_, shape).engines(describe_device(api_, description(GetParam()))).size();
  }

  std::shared_ptr<const Api> api_;
};

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnGraphTest, testing::ValuesIn(kGpus),
                         [](const auto& info) { return info.param.name; });

TEST_P(CudnnGraphTest, HasEnginesForEveryBand) {
  for (const TileShape::Pass pass : kPasses) {
    for (const bool lower : {false, true}) {
      for (const bool upper : {false, true}) {
        TileShape shape = make_shape(1000, 900, 128, 128);
        shape.pass = pass, shape.lower = lower, shape.upper = upper;
        EXPECT_GT(engines(shape), 0u) << static_cast<int>(pass) << ' ' << lower << ' ' << upper;
      }
    }
  }
}

TEST_P(CudnnGraphTest, HasEnginesForShapesStepsAndTypes) {
  TileShape shapes[] = {make_shape(64, 64, 64, 64), make_shape(37, 53, 72, 72),
                        make_shape(1, 1, 128, 128), make_shape(500, 700, 128, 64, 3)};
  for (TileShape& shape : shapes) {
    shape.upper = true;
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const TileShape::Pass pass : kPasses) {
        shape.dtype = dtype, shape.pass = pass;
        EXPECT_GT(engines(shape), 0u) << static_cast<int>(pass) << ' ' << shape.queries << ' '
                                      << shape.head_dim << '/' << shape.value_dim;
      }
    }
  }
}

/// What the functions of refusing_api() return when a plan is finalised, and asked for its size.
Status plan_status = kSuccess, size_status = kSuccess;

/// cuDNN that takes every graph and has two engines for it.
std::shared_ptr<const Api> refusing_api() {
  auto api = std::make_shared<Api>();
  api->error_string = [](Status) { return "refused"; };
  api->last_error = [](char* text, std::size_t) { *text = '\0'; };
  api->create_handle = [](HandlePointer*) { return kSuccess; };
  api->destroy_handle = [](HandlePointer) { return kSuccess; };
  api->set_stream = [](HandlePointer, CUstream_st*) { return kSuccess; };
  api->create = [](Kind kind, DescriptorPointer* pointer) {
    *pointer = new Kind(kind);
    return kSuccess;
  };
  api->destroy = [](DescriptorPointer pointer) {
    delete static_cast<Kind*>(pointer);
    return kSuccess;
  };
  api->set = [](DescriptorPointer, Attribute, Type, std::int64_t, const void*) { return kSuccess; };
  api->get = [](DescriptorPointer, Attribute attribute, Type, std::int64_t, std::int64_t* count,
                void*) {
    *count = 2;
    return attribute == Attribute::plan_workspace_bytes ? size_status : kSuccess;
  };
  api->finalize = [](DescriptorPointer pointer) {
    return *static_cast<Kind*>(pointer) == Kind::execution_plan ? plan_status : kSuccess;
  };
  return api;
}

TEST(CudnnPlanTest, TellsWhatCudnnCannotDoFromWhatHasFailed) {
  constexpr Status kShape = 3002, kShared = 3010, kPrerequisite = 3008, kCompilation = 4001;
  const Handle handle(refusing_api(), nullptr);
  const Descriptor device = describe_device(handle.api(), handle.pointer());
  const TileShape shape = make_shape(64, 64, 64, 64);
  const auto kind_of = [&](Status of_plan, Status of_size) -> std::optional<ErrorKind> {
    plan_status = of_plan, size_status = of_size;
    try {
      TilePlan::make(handle, device, shape);
      return {};
    } catch (const Error& error) {
      return error.kind();
    }
  };
  EXPECT_EQ(kind_of(kSuccess, kSuccess), std::nullopt);
  for (const Status status : {kNotSupported, kShape, kShared}) {
    EXPECT_EQ(kind_of(status, kSuccess), ErrorKind::not_available) << status;
    EXPECT_EQ(kind_of(kSuccess, status), ErrorKind::not_available) << status;
  }
  for (const Status status : {kPrerequisite, kCompilation}) {
    EXPECT_EQ(kind_of(status, kSuccess), ErrorKind::system) << status;
    EXPECT_EQ(kind_of(kSuccess, status), ErrorKind::system) << status;
  }
}

TEST_P(CudnnGraphTest, IsRefusedForWhatItCannotExpress) {
  TileShape shape = make_shape(64, 64, 64, 64);
  shape.kv_heads = 3;  // of 8 heads
  EXPECT_THROW(engines(shape), Error);
}

}  // namespace
}  // namespace ringspan::attention::cudnn
