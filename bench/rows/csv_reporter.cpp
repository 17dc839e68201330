// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/csv_reporter.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "bench/rows/csv_line.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
CsvReporter::CsvReporter(std::string path) : path_(std::move(path)) {
  std::error_code ignored;
  created_ = !std::filesystem::exists(path_, ignored);
  file_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  RINGSPAN_REQUIRE(file_ >= 0, "--csv: cannot write ", path_, ": ", std::strerror(errno));
  // Not every file system knows locks; where there are none, nothing else is wrong.
  const bool taken = flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (taken) close(file_);
  RINGSPAN_REQUIRE(!taken, "--csv: ", path_,
                   " is being written by another sweep; wait for it, or give another name");
}

CsvReporter::~CsvReporter() {
  std::error_code ignored;
  if (created_) std::filesystem::remove(path_, ignored);
  close(file_);  // last: gives up the lock
}

void CsvReporter::append(const Cells& row) {
  const off_t end = lseek(file_, 0, SEEK_END);
  try {
    write(end == 0 ? csv_line(kColumns) + csv_line(row) : csv_line(row));
  } catch (const Error&) {
    // Half a row would have to be removed by hand before --resume; if this fails too, it has to.
    [[maybe_unused]] const int kept = ftruncate(file_, end);
    throw;
  }
  created_ = false;
}

void CsvReporter::write(const std::string& lines) {
  for (std::string_view left = lines; !left.empty();) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw Error(ErrorKind::system, "cannot write " + path_ + ": " + std::strerror(errno));
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace ringspan::bench
