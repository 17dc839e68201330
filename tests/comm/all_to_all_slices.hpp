// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "comm/all_to_all.hpp"
#include "tests/comm/pattern.hpp"

namespace ringspan::comm::test {

/// Bytes from one rank to another.
using SizeFunction = std::int64_t (*)(int source, int destination);

inline std::int64_t equal_sizes(int, int) { return 24; }
inline std::int64_t uneven_sizes(int source, int destination) {
  return (source + 2 * destination) % 4 == 1 ? 0 : 12 * source + 30 * destination + 6;
}
inline std::int64_t one_sender(int source, int) { return source == 0 ? 1 : 0; }

inline constexpr std::byte kUntouched{0xEE};

/// `bytes` in up to `rows` equal rows with gaps between them, in a buffer of its own.
inline Slice in_rows(Device& device, std::int64_t bytes, std::int64_t rows) {
  Slice slice;
  slice.rows = std::gcd(bytes, rows);
  slice.row_bytes = bytes / slice.rows;
  slice.stride = slice.row_bytes + 3;
  slice.offset = 5;
  slice.buffer = device.allocate(slice.offset + slice.rows * slice.stride);
  std::fill_n(slice.buffer.data(), slice.buffer.bytes(), kUntouched);
  return slice;
}

inline std::int64_t untouched_bytes(const Slice& slice) {
  return std::count(slice.buffer.data(), slice.buffer.data() + slice.buffer.bytes(), kUntouched);
}

/// One slice per rank in each direction, cut into different rows on the two sides.
struct Slices {
  Slices(const Communicator& comm, SizeFunction bytes) {
    for (int peer = 0; peer < comm.size(); ++peer) {
      send.push_back(in_rows(comm.device(), bytes(comm.rank(), peer), 2));
      recv.push_back(in_rows(comm.device(), bytes(peer, comm.rank()), 3));
    }
  }
  std::vector<Slice> send, recv;
};

/// Three exchanges of one plan; nothing but the rows of the slices is written.
inline void check_exchanges(const Communicator& comm, AllToAllAlgorithm algorithm,
                            SizeFunction bytes) {
  const Slices slices(comm, bytes);
  AllToAll exchange(comm, slices.send, slices.recv, algorithm);
  EXPECT_EQ(exchange.choice().algorithm, algorithm);
  for (int round = 0; round < 3; ++round) {
    for (int peer = 0; peer < comm.size(); ++peer) {
      write_pattern(slices.send[peer], comm.rank(), peer, round);
      std::fill_n(slices.recv[peer].buffer.data(), slices.recv[peer].buffer.bytes(), kUntouched);
    }
    exchange.start();
    exchange.finish();
    for (int peer = 0; peer < comm.size(); ++peer) {
      EXPECT_TRUE(has_pattern(slices.send[peer], comm.rank(), peer, round));
      EXPECT_TRUE(has_pattern(slices.recv[peer], peer, comm.rank(), round));
      std::int64_t data_alike = 0;  // bytes of the pattern that look untouched
      for (std::int64_t i = 0; i < slices.recv[peer].bytes(); ++i) {
        data_alike += pattern(peer, comm.rank(), round, i) == kUntouched;
      }
      EXPECT_EQ(untouched_bytes(slices.recv[peer]) - data_alike,
                slices.recv[peer].buffer.bytes() - slices.recv[peer].bytes());
    }
  }
}

}  // namespace ringspan::comm::test
