// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/diagnosis/flight_recorder.hpp"

#include <algorithm>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

namespace ringspan::comm::diagnosis {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::ostringstream text;
  text << std::put_time(&parts, "%Y-%m-%dT%H:%M:%SZ");
  return text.str();
}

std::string ranks(const std::vector<int>& list) { return list.empty() ? "none" : name_list(list); }

}  // namespace

FlightRecorder::FlightRecorder(int rank, std::int64_t (*now)())
    : rank_(rank), now_(now), start_(now()), start_of_day_(utc_now()), entries_(kCapacity) {}

std::int64_t FlightRecorder::post(const Operation& operation) {
  Entry& entry = this->entry(posted_);
  entry.channel = operation.channel;
  entry.sequence = operation.sequence;
  entry.name = operation.name;
  entry.to.clear();
  entry.from.clear();
  entry.bytes_sent = entry.bytes_received = 0;
  entry.posted = now_();
  entry.done = -1;
  return posted_++;
}

void FlightRecorder::sends(int peer, std::int64_t bytes) {
  Entry& entry = this->entry(posted_ - 1);
  entry.to.push_back(peer);
  entry.bytes_sent += bytes;
}

void FlightRecorder::receives(int peer, std::int64_t bytes) {
  Entry& entry = this->entry(posted_ - 1);
  entry.from.push_back(peer);
  entry.bytes_received += bytes;
}

void FlightRecorder::done(std::int64_t number) {
  if (posted_ - number <= kCapacity) entry(number).done = now_();
}

std::string FlightRecorder::text(const Error& cause) const {
  std::ostringstream out;
  out << std::fixed << std::setprecision(6);
  const auto seconds = [&](std::int64_t time) { return static_cast<double>(time - start_) * 1e-9; };
  out << "rank " << rank_ << ", started " << start_of_day_ << ", failed after " << seconds(now_())
      << " s\n"
      << name(cause.kind()) << ": " << cause.what() << "\n"
      << "times in seconds since the start, to a few milliseconds; ranks of the world\n";
  for (std::int64_t number = std::max<std::int64_t>(0, posted_ - kCapacity); number < posted_;
       ++number) {
    const Entry& entry = entries_[number % kCapacity];
    out << "channel " << entry.channel << " operation " << entry.sequence << ", " << entry.name
        << ": " << entry.bytes_sent << " bytes to " << ranks(entry.to) << ", "
        << entry.bytes_received << " bytes from " << ranks(entry.from) << "; posted "
        << seconds(entry.posted);
    if (entry.done < 0) {
      out << ", in flight\n";
    } else {
      out << ", done " << seconds(entry.done) << "\n";
    }
  }
  return out.str();
}

void FlightRecorder::dump(const std::string& folder, const Error& cause) {
  if (folder.empty() || std::exchange(dumped_, true)) return;
  const std::filesystem::path path = std::filesystem::path(folder) / concat("rank-", rank_, ".txt");
  try {
    std::filesystem::create_directories(folder);
    std::ofstream file(path);
    file << text(cause);
    file.close();
    if (file) return;
    std::cerr << "ringspan: the flight recorder cannot write " << path.string() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "ringspan: the flight recorder cannot write " << path.string() << ": "
              << error.what() << "\n";
  }
}

}  // namespace ringspan::comm::diagnosis
