// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/config_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

TEST(ConfigFileTest, NumbersKeepAllTheirDigits) {
  const std::string path =
      std::filesystem::temp_directory_path() / concat("ringspan_config_test_", getpid(), ".toml");
  std::ofstream(path) << "softmax-scale = 0.08838834764831845\nsoftcap = 1e-12\n"
                         "seed = 9007199254740993\nseq = [64, \"1Ki:4Ki:x2\"]\n";
  const OptionTexts texts = read_config(path);
  std::filesystem::remove(path);
  EXPECT_EQ(texts.at("--softmax-scale"), "0.08838834764831845");
  EXPECT_EQ(texts.at("--softcap"), "1e-12");
  EXPECT_EQ(texts.at("--seed"), "9007199254740993");
  EXPECT_EQ(texts.at("--seq"), "64,1Ki:4Ki:x2");
  EXPECT_EQ(sweep_options(texts, {}).measure.softmax_scale, 0.08838834764831845);
}

}  // namespace
}  // namespace ringspan::bench
