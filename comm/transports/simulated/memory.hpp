// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/device.hpp"

namespace ringspan::comm::simulated {

/// The memory of one simulated GPU. Tensors have addresses of their own but no storage: touching
/// one is a fault of the program, and ends it. Up to 4 KiB, and for values, memory is real.
class Memory {
 public:
  /// With `poison`, what is real holds NaN when handed out.
  explicit Memory(bool poison);

  Buffer allocate(std::int64_t bytes);
  Buffer allocate_values(std::int64_t bytes);
  MemoryUse use() const;
  void reset_peak();

  bool has_storage(const Slice& slice) const;

 private:
  struct Ledger;

  Buffer account(std::byte* data, std::int64_t bytes, void (*release)(std::byte*, std::int64_t));

  const bool poison_;
  const std::shared_ptr<Ledger> ledger_;  // outlives the memory for as long as a buffer does
};

}  // namespace ringspan::comm::simulated
