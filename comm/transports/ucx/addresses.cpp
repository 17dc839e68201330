// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/ucx/addresses.hpp"

#include <algorithm>
#include <type_traits>

#include "comm/error.hpp"

namespace ringspan::comm::ucx {
namespace {

/// What is gathered first, of one size everywhere.
struct Introduction {
  processes::ProcessIdentity process;
  std::int64_t address_bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Introduction>);

}  // namespace

std::vector<Address> exchange_addresses(const Bootstrap& bootstrap,
                                        const std::vector<std::byte>& worker, double deadline) {
  const Introduction own{processes::ProcessIdentity::own(), std::ssize(worker)};
  std::vector<Introduction> all(bootstrap.size);
  bootstrap.all_gather(reinterpret_cast<const std::byte*>(&own),
                       reinterpret_cast<std::byte*>(all.data()), sizeof own, deadline);
  const Introduction& returned = all[bootstrap.rank];
  RINGSPAN_REQUIRE(
      returned.process.id == own.process.id && returned.address_bytes == own.address_bytes,
      "the all_gather of the bootstrap does not put what rank ", bootstrap.rank,
      " gave it at all + rank * bytes");
  if (worker.empty()) return {};
  for (int rank = 0; rank < bootstrap.size; ++rank) {
    if (all[rank].address_bytes == 0)
      throw Error(ErrorKind::peer_failed, concat("rank ", rank, " could not start UCX"),
                  {bootstrap.rank, rank});
  }

  std::size_t longest = 0;
  for (const Introduction& each : all)
    longest = std::max(longest, static_cast<std::size_t>(each.address_bytes));
  std::vector<std::byte> padded = worker;
  padded.resize(longest);
  std::vector<std::byte> gathered(longest * all.size());
  bootstrap.all_gather(padded.data(), gathered.data(), longest, deadline);
  std::vector<Address> addresses;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::byte* first = gathered.data() + rank * longest;
    addresses.push_back({all[rank].process, {first, first + all[rank].address_bytes}});
  }
  return addresses;
}

}  // namespace ringspan::comm::ucx
