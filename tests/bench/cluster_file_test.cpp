// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/cluster_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "attention/kernels/kernel_curves.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ClusterFileTest : public ::testing::Test {
 protected:
  ~ClusterFileTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder_);
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path) << text;
    return path.string();
  }

  static std::string refusal(const std::string& given) {
    try {
      read_cluster(given);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.what(), testing::StartsWith("--cluster: "));
      return error.what();
    }
    return "";
  }
  std::string refusal_of(const std::string& text) { return refusal(write("bad.toml", text)); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / concat("ringspan_cluster_test_", getpid());
};

TEST_F(ClusterFileTest, TheClustersThatComeAlongHoldUpTo1024GpusWhoseKernelsAreKnown) {
  EXPECT_THAT(known_clusters(), ElementsAre("a100", "a100-400g", "a100-pcie", "a800", "b200",
                                            "b200-800g", "h100", "h100-cuda-ipc", "h200", "h800",
                                            "h800-800g", "h800-nvlink5", "l20-pcie"));
  for (const std::string& name : known_clusters()) {
    const comm::Cluster cluster = read_cluster(name);
    EXPECT_EQ(cluster.name, name);
    EXPECT_EQ(cluster.gpus_per_node, 8) << name;
    EXPECT_EQ(comm::places(cluster, 1024).back().node, 127) << name;
    EXPECT_NO_THROW(attention::usual_library(cluster.gpu.kind)) << name;
  }
}

TEST_F(ClusterFileTest, WhatDiffersFromAnotherFileIsWhatAFileHas) {
  comm::Cluster expected = read_cluster("h100");
  expected.name = "h800";
  expected.gpu.kind = "h800";
  expected.fabric.gpu_bytes_per_second = 160e9;
  expected.fabric.messages.channels = 16;
  EXPECT_EQ(read_cluster("h800"), expected);
}

TEST_F(ClusterFileTest, AFileOfOnesOwnMayBuildOnThem) {
  const comm::Cluster cluster =
      read_cluster(write("mine.toml", "like = \"a800\"\n[network]\nnodes_per_leaf = 16\n"));
  EXPECT_EQ(cluster.name, "mine");
  EXPECT_EQ(cluster.network.nodes_per_leaf, 16);
  EXPECT_EQ(cluster.gpu, read_cluster("a800").gpu);
}

TEST_F(ClusterFileTest, WhatIsWrittenReadsAsTheSame) {
  for (const std::string& name : known_clusters()) {
    const comm::Cluster cluster = read_cluster(name);
    const std::string path = write(name + ".toml", cluster_text(cluster, "measured\nby hand"));
    EXPECT_EQ(read_cluster(path), cluster);
  }
}

TEST_F(ClusterFileTest, TwoSocketsAreTwoNumaDomains) {
  EXPECT_EQ(comm::places(read_cluster("l20-pcie"), 8)[3].numa_domain, 0);
  EXPECT_EQ(comm::places(read_cluster("l20-pcie"), 8)[4].numa_domain, 1);
}

TEST_F(ClusterFileTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_EQ(refusal("h900"),
            "--cluster: unknown cluster 'h900'; known are a100, a100-400g, a100-pcie, a800, b200, "
            "b200-800g, h100, h100-cuda-ipc, h200, h800, h800-800g, h800-nvlink5, l20-pcie, and "
            "files (with a "
            "slash or .toml in the name)");
}

TEST_F(ClusterFileTest, WhatCannotBeReadIsRefused) {
  EXPECT_THAT(refusal("./none.toml"), HasSubstr("cannot read ./none.toml"));
  EXPECT_THAT(refusal("/"), HasSubstr("cannot read /: it is a directory"));
  EXPECT_THAT(refusal_of("nodes = 2\ngpus_per_node = = 8\n"), HasSubstr("bad.toml, line 2: "));
}

TEST_F(ClusterFileTest, UnknownKeysAreRefusedWithTheirLine) {
  EXPECT_THAT(refusal_of("nodes = 1\nnode = 2\n"),
              HasSubstr("line 2: unknown key 'node'; known are like, nodes, gpus_per_node, "));
  EXPECT_THAT(refusal_of("[gpu]\n\nsms = 108\n"), HasSubstr("line 3: unknown key 'gpu.sms'; "));
  EXPECT_THAT(refusal_of("[gpus]\nkind = \"h100\"\n"), HasSubstr("line 1: unknown key 'gpus'; "));
  EXPECT_THAT(refusal_of("\ngpu = 3\n"), HasSubstr("line 2: 'gpu' is a table"));
}

TEST_F(ClusterFileTest, ValuesOfTheWrongKindAreRefusedWithTheirLine) {
  EXPECT_THAT(refusal_of("nodes = 1.5\n"), HasSubstr("line 1: nodes is a whole number"));
  EXPECT_THAT(refusal_of("nodes = 4294967297\n"),
              HasSubstr("line 1: nodes is 4294967297; the most is 2147483647"));
  EXPECT_THAT(refusal_of("[gpu]\nkind = 800\n"), HasSubstr("line 2: gpu.kind is a string"));
  EXPECT_THAT(refusal_of("[network]\nbehind_gpu_port = 1\n"),
              HasSubstr("line 2: network.behind_gpu_port is true or false"));
  EXPECT_THAT(refusal_of("[fabric]\nlatency_seconds = \"1 us\"\n"),
              HasSubstr("line 2: fabric.latency_seconds is a number"));
  EXPECT_THAT(refusal_of("like = 3\n"), HasSubstr("line 1: like is the name of a cluster"));
}

TEST_F(ClusterFileTest, BrokenRulesAreRefusedWithTheLineOfTheirKey) {
  EXPECT_THAT(refusal_of("like = \"h100\"\n\n[network]\nadapters_per_node = 3\n"),
              HasSubstr("bad.toml, line 4: network.adapters_per_node is 3; "));
  EXPECT_THAT(refusal_of("like = \"h100\"\n[fabric]\nkernel_slowdown = 0.5\n"),
              HasSubstr("line 3: fabric.kernel_slowdown is 0.5; "));
  EXPECT_THAT(refusal_of("like = \"h100\"\n[fabric]\ngpu_bytes_per_second = nan\n"),
              HasSubstr("line 3: fabric.gpu_bytes_per_second is "));
  EXPECT_THAT(refusal_of("nodes = 1\n"), HasSubstr("bad.toml: gpu.kind is missing"));
}

TEST_F(ClusterFileTest, FilesThatBuildOnEachOtherAreRefused) {
  const std::string other = (folder_ / "other.toml").string();
  const std::string one = write("one.toml", "like = \"" + other + "\"\n");
  write("other.toml", "like = \"" + one + "\"\n");
  EXPECT_THAT(refusal(one), HasSubstr("line 1: like: files refer to each other in a circle"));
}

}  // namespace
}  // namespace ringspan::bench
