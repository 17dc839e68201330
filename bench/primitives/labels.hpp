// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "comm/buffer.hpp"
#include "comm/communicator.hpp"

namespace ringspan::bench {

inline constexpr std::int64_t kLabelBytes = sizeof(float);

/// Elements (fp32) that say where they come from and where they belong, in the memory of a rank's
/// device, which they reach through some of the host's. Sums over all sources are whole numbers
/// below 2^24 up to 4,096 ranks, so they are exact in whatever order they are added.
class Labels {
 public:
  explicit Labels(const comm::Communicator& comm) : comm_(comm) {}

  /// Element i of the slice becomes label `first` + i of what `source` has for `destination`.
  void write(const comm::Slice& slice, int source, int destination, std::int64_t first = 0) const;

  /// Elements that are to be received; none of them is a label.
  void clear(const comm::Slice& slice) const;

  /// How many elements are not what write() writes, or not its sum over sources 0 to ranks - 1.
  std::int64_t wrong(const comm::Slice& slice, int source, int destination) const;
  std::int64_t wrong_sums(const comm::Slice& slice, int ranks, std::int64_t first) const;

 private:
  /// Calls `use` with the elements on the host, part by part, and the place of the first of them.
  using Use = std::function<void(std::span<float> elements, std::int64_t first)>;
  void write_parts(const comm::Slice& slice, const Use& use) const;
  void read_parts(const comm::Slice& slice, const Use& use) const;
  std::int64_t different(const comm::Slice& slice, std::int64_t base, std::int64_t factor,
                         std::int64_t first) const;

  comm::Communicator comm_;
};

}  // namespace ringspan::bench
