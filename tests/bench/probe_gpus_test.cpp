// SPDX-License-Identifier: Apache-2.0
#include "bench/probe_gpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/ask/cluster_file.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

GpuFigures figures() {
  return {.gpu = "NVIDIA H100 80GB HBM3 (sm_90)",
          .memory_bytes = 85'899'345'920,
          .ranks = 4,
          .gpus = 4,
          .nodes = 1,
          .copy_bytes_per_second = 1.25e12,
          .issue_seconds = 2e-6,
          .hop_seconds = 7e-6,
          .hop_bytes_per_second = 3e11};
}

TEST(ProbeGpusTest, AClusterFileHasWhatWasMeasuredAndOfTheRestWhatIsDescribed) {
  for (const char* transport : {"nccl", "cuda_ipc"}) {
    const std::string path = testing::TempDir() + "probe_gpus_test.toml";
    std::ofstream(path) << cluster_text(cluster_of(figures(), transport), "measured");
    const comm::Cluster cluster = read_cluster(path);
    std::filesystem::remove(path);
    const comm::Cluster described = read_cluster("h100");
    EXPECT_EQ(cluster.gpus(), 4);
    EXPECT_EQ(cluster.gpu.memory_bytes, 85'899'345'920);
    EXPECT_EQ(cluster.gpu.memory_bytes_per_second, 2.5e12);
    EXPECT_EQ(cluster.issue_seconds, 2e-6);
    EXPECT_EQ(cluster.fabric.messages.latency_seconds, 7e-6);
    EXPECT_EQ(cluster.fabric.gpu_bytes_per_second, 3e11);
    EXPECT_EQ(cluster.gpu.kind, described.gpu.kind);
    EXPECT_EQ(cluster.network.adapter_bytes_per_second, described.network.adapter_bytes_per_second);
    const bool engines = std::string(transport) == "cuda_ipc";
    EXPECT_EQ(cluster.fabric.messages.channels, engines ? 0 : described.fabric.messages.channels);
  }
}

TEST(ProbeGpusTest, WhatDescribesNoNodeIsRefused) {
  const auto refused = [](GpuFigures changed, const char* why) {
    EXPECT_THAT([&] { cluster_of(changed, "nccl"); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  GpuFigures one = figures(), shared = figures(), far = figures(), other = figures();
  one.ranks = one.gpus = 1;
  refused(one, "one rank sends nothing");
  shared.gpus = 1;
  refused(shared, "4 ranks share 1 GPU;");
  far.nodes = 2;
  refused(far, "the ranks are on 2 nodes");
  other.gpu = "Emulated GPU (sm_90)";
  refused(other, "is not known");
}

}  // namespace
}  // namespace ringspan::bench
