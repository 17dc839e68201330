// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/simulated/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <unordered_set>

#include "comm/error.hpp"

namespace ringspan::comm::simulated {
namespace {

constexpr std::int64_t kLargestReal = 4096;  // bytes
constexpr std::align_val_t kAlignment{64};

}  // namespace

struct Memory::Ledger {
  MemoryUse use;
  std::unordered_set<const std::byte*> without_storage;
};

Memory::Memory(bool poison) : poison_(poison), ledger_(std::make_shared<Ledger>()) {}

Buffer Memory::account(std::byte* data, std::int64_t bytes,
                       void (*release)(std::byte*, std::int64_t)) {
  MemoryUse& use = ledger_->use;
  use.current += bytes;
  use.peak = std::max(use.peak, use.current);
  return Buffer(data, bytes, [ledger = ledger_, data, bytes, release] {
    ledger->use.current -= bytes;
    ledger->without_storage.erase(data);
    release(data, bytes);
  });
}

Buffer Memory::allocate(std::int64_t bytes) {
  if (bytes <= kLargestReal) return allocate_values(bytes);
  void* const data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    throw Error(ErrorKind::system,
                concat("allocate: no address space for ", bytes, " simulated bytes"));
  auto* const begin = static_cast<std::byte*>(data);
  ledger_->without_storage.insert(begin);
  return account(begin, bytes, [](std::byte* address, std::int64_t size) {
    munmap(address, static_cast<std::size_t>(size));
  });
}

Buffer Memory::allocate_values(std::int64_t bytes) {
  RINGSPAN_REQUIRE(bytes >= 0, "allocate: ", bytes, " bytes; a size is not negative");
  auto* const data =
      static_cast<std::byte*>(::operator new(std::max<std::int64_t>(bytes, 1), kAlignment));
  if (poison_) std::memset(data, 0xff, bytes);
  return account(data, bytes,
                 [](std::byte* address, std::int64_t) { ::operator delete(address, kAlignment); });
}

MemoryUse Memory::use() const { return ledger_->use; }

void Memory::reset_peak() { ledger_->use.peak = ledger_->use.current; }

bool Memory::has_storage(const Slice& slice) const {
  return slice.buffer && !ledger_->without_storage.count(slice.buffer.data());
}

}  // namespace ringspan::comm::simulated
