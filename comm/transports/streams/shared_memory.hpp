// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace ringspan::comm::streams {

/// Memory, zero at first. Throws system with the reason if there is not enough.
class SharedMemory {
 public:
  /// Of this process alone; it takes no more room than what has been written of it.
  explicit SharedMemory(std::size_t bytes);
  /// Of all processes that open the same name, one of which creates it. The name goes with
  /// remove(), the memory when the last one closes it.
  SharedMemory(const std::string& name, bool create, std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }

  static void remove(const std::string& name);

 private:
  const std::size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace ringspan::comm::streams
