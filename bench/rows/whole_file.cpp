// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/whole_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

namespace fs = std::filesystem;

/// Where a file grows, gone again unless it has taken the place of `file`.
class Growing {
 public:
  /// Its error() says what it could not be made for. No file that is there is touched.
  explicit Growing(const std::string& file) : file_(file), path_(file) {
    std::error_code none;
    const fs::file_status status = fs::symlink_status(file, none);
    if (fs::exists(status) && !fs::is_regular_file(status)) return;
    constexpr int kMostNames = 1000;
    for (int number = 0; number < kMostNames; ++number) {
      path_ = concat(file, '.', getpid(), '-', number, ".tmp");
      const int made = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      error_ = made < 0 ? errno : 0;
      if (made >= 0) close(made);
      if (error_ != EEXIST) break;
    }
    apart_ = error_ == 0;
    if (apart_ && fs::exists(status)) fs::permissions(path_, status.permissions(), none);
  }
  ~Growing() {
    std::error_code none;
    if (apart_) fs::remove(path_, none);
  }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;

  const std::string& path() const { return path_; }
  int error() const { return error_; }

  bool take_place() {
    std::error_code error;
    if (apart_) fs::rename(path_, file_, error);
    apart_ = apart_ && error;
    return !error;
  }

 private:
  const std::string& file_;
  std::string path_;
  int error_ = 0;
  bool apart_ = false;
};

}  // namespace

void write_whole(std::string_view what, const std::string& file,
                 const std::function<void(std::ostream&)>& write) {
  Growing growing(file);
  bool whole = growing.error() == 0;
  if (whole) {
    std::ofstream stream(growing.path());
    write(stream);
    stream.close();
    whole = stream && growing.take_place();
  }
  if (!whole) throw Error(ErrorKind::system, concat(what, ": cannot write ", file));
}

void require_writable(std::string_view what, const std::string& file) {
  std::error_code none;
  const bool there = fs::exists(file, none);
  const auto require = [&](bool can) {
    RINGSPAN_REQUIRE(can, what, ": cannot write ", file, ": ",
                     std::generic_category().message(errno));
  };
  require(static_cast<bool>(std::ofstream(file, std::ios::app)));
  if (!there) fs::remove(file, none);  // it may come to nothing
  const Growing growing(file);
  errno = growing.error();
  require(growing.error() == 0);
}

}  // namespace ringspan::bench
