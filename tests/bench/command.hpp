// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "comm/error.hpp"
#include "tests/bench/file_limit.hpp"

namespace ringspan::bench {

/// How a process ended, and what it printed.
struct Outcome {
  int status = -1;
  std::string out, err;
};

/// Each test runs the command in a process of its own, with a folder for its files.
class CommandTest : public testing::Test {
 protected:
  CommandTest() { std::filesystem::create_directory(folder_); }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }
  /// Their names.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    return names;
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }

  pid_t start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), RINGSPAN_COMMAND);
    arguments.insert(arguments.begin(), launcher_.begin(), launcher_.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&files, 1, path("out").c_str(), kCreate, 0600);
    posix_spawn_file_actions_addopen(&files, 2, path("err").c_str(), kCreate, 0600);
    pid_t child = -1;
    const int failure = posix_spawn(&child, argv[0], &files, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    // No caller may go on with -1, which to kill() is every process there is.
    if (failure) throw std::system_error(failure, std::generic_category(), argv[0]);
    return child;
  }

  Outcome finish(pid_t child) const {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text("out"), text("err")};
  }

  Outcome run(const std::vector<std::string>& arguments) const { return finish(start(arguments)); }

  /// As if the disk were full: no file of the command can grow beyond so many bytes.
  Outcome run_with_files_up_to(rlim_t bytes, const std::vector<std::string>& arguments) const {
    const FileLimit limit(bytes);
    return run(arguments);
  }

  /// `sweep` of a few tokens, with more arguments.
  Outcome tiny(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"sweep",   "--repeats", "1",          "--warmup", "0",
                                       "--heads", "2",         "--head-dim", "8"};
    if (std::find(more.begin(), more.end(), "--seq") == more.end()) {
      arguments.insert(arguments.end(), {"--seq", "64"});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }

  /// Status 2, nothing on standard output, one line on standard error that holds `expected`.
  void expect_refused(const std::vector<std::string>& arguments,
                      const std::string& expected) const {
    const Outcome outcome = run(arguments);
    SCOPED_TRACE(testing::PrintToString(arguments));
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, testing::AllOf(testing::StartsWith("ringspan: "),
                                            testing::HasSubstr(expected), testing::EndsWith("\n")));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  std::vector<std::string> launcher_;  // such as mpirun -n 2; empty: the command itself
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / concat("ringspan_command_test_", getpid());
};

}  // namespace ringspan::bench
