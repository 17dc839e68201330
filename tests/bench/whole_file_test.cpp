// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/whole_file.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "bench/rows/new_csv.hpp"
#include "comm/error.hpp"
#include "tests/bench/file_limit.hpp"

namespace ringspan::bench {
namespace whole_file_test {

namespace fs = std::filesystem;

class WholeFileTest : public testing::Test {
 protected:
  WholeFileTest() { fs::create_directory(folder_); }
  ~WholeFileTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  void store(const std::string& name, const std::string& text) const {
    write_whole("--json", path(name), [&](std::ostream& stream) { stream << text; });
  }

  const fs::path folder_ = fs::temp_directory_path() / concat("ringspan_whole_file_", getpid());
};

TEST_F(WholeFileTest, TakesThePlaceOfAnotherAndOfItsPermissions) {
  store("a.json", "first");
  EXPECT_EQ(text("a.json"), "first");
  fs::permissions(path("a.json"), fs::perms::owner_read | fs::perms::owner_write);
  store("a.json", "second");
  EXPECT_EQ(text("a.json"), "second");
  EXPECT_EQ(fs::status(path("a.json")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileTest, OnAFullDiskWhatWasThereStays) {
  store("a.json", "first");
  const FileLimit full(16);
  for (const char* name : {"a.json", "b.json"}) {
    try {
      store(name, std::string(100, 'x'));
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::system);
      EXPECT_EQ(error.what(), "--json: cannot write " + path(name));
    }
  }
  EXPECT_EQ(text("a.json"), "first");
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileTest, ALinkStaysOne) {
  store("a.json", "first");
  fs::create_symlink("a.json", path("link"));
  store("link", "second");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text("a.json"), "second");
}

TEST_F(WholeFileTest, WhatCannotBeWrittenIsRefusedAndNothingIsLeft) {
  require_writable("--json", path("a.json"));
  EXPECT_EQ(files(), 0);
  store("a.json", "first");
  require_writable("--json", path("a.json"));
  EXPECT_EQ(text("a.json"), "first");
  EXPECT_EQ(files(), 1);
  for (const std::string& file : {path("no/a.json"), path("a.json") + "/b", path("")}) {
    try {
      require_writable("--json", file);
      ADD_FAILURE() << file;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.what(), testing::StartsWith("--json: cannot write " + file + ": "));
    }
  }
}

TEST_F(WholeFileTest, ANewCsvWithoutRoomForItsHeaderIsNone) {
  const FileLimit full(4);
  EXPECT_THROW(NewCsv(path("a.csv"), {"table", "row"}), Error);
  EXPECT_EQ(files(), 0);
}

}  // namespace whole_file_test
}  // namespace ringspan::bench
