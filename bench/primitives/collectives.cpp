// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives.hpp"

#include <vector>

#include "bench/primitives/labels.hpp"
#include "bench/primitives/primitive.hpp"
#include "comm/batch.hpp"

namespace ringspan::bench {
namespace {

using comm::Slice;

/// Equal parts of the first buffer, one per rank.
std::vector<Slice> equal_parts(const Setting& setting) {
  const std::int64_t part = equal_part(setting, setting.comm.size());
  std::vector<Slice> parts;
  for (int rank = 0; rank < setting.comm.size(); ++rank)
    parts.push_back(comm::slice(setting.first, rank * part, part));
  return parts;
}

std::int64_t count_of(const Slice& slice) { return slice.bytes() / kLabelBytes; }

}  // namespace

Operation all_gather(const Setting& setting) {
  const comm::Communicator comm = setting.comm;
  const Labels labels(comm);
  const std::vector<Slice> parts = equal_parts(setting);
  const auto run = [=] { comm::all_gather(comm, parts); };
  return {comm.size() * parts[0].bytes(), count_of(parts[0]), run, [=] {
            for (const Slice& part : parts) labels.clear(part);
            labels.write(parts[comm.rank()], comm.rank(), 0);
            run();
            std::int64_t wrong = 0;
            for (int rank = 0; rank < comm.size(); ++rank)
              wrong += labels.wrong(parts[rank], rank, 0);
            return wrong;
          }};
}

// Timed again and again in place, the sums grow to infinity, which takes no longer to add.
Operation reduce_scatter(const Setting& setting) {
  const comm::Communicator comm = setting.comm;
  const Labels labels(comm);
  const std::vector<Slice> parts = equal_parts(setting);
  const std::int64_t count = count_of(parts[0]);
  const comm::Buffer staging = setting.second;
  const auto run = [=] {
    comm::reduce_scatter(comm, parts, comm::Element::f32, comm::Reduction::sum, staging);
  };
  return {comm.size() * parts[0].bytes(), count, run, [=] {
            for (int rank = 0; rank < comm.size(); ++rank)
              labels.write(parts[rank], comm.rank(), 0, rank * count);
            run();
            return labels.wrong_sums(parts[comm.rank()], comm.size(), comm.rank() * count);
          }};
}

Operation all_reduce(const Setting& setting) {
  const comm::Communicator comm = setting.comm;
  const Labels labels(comm);
  const Slice data = comm::slice(setting.first, 0, equal_part(setting, 1));
  const comm::Buffer staging = setting.second;
  const auto run = [=] {
    comm::all_reduce(comm, data, comm::Element::f32, comm::Reduction::sum, staging);
  };
  return {data.bytes(), count_of(data), run, [=] {
            labels.write(data, comm.rank(), 0);
            run();
            return labels.wrong_sums(data, comm.size(), 0);
          }};
}

Operation broadcast(const Setting& setting) {
  const comm::Communicator comm = setting.comm;
  const Labels labels(comm);
  const Slice data = comm::slice(setting.first, 0, equal_part(setting, 1));
  const auto run = [=] { comm::broadcast(comm, data, 0); };
  return {data.bytes(), count_of(data), run, [=] {
            labels.clear(data);
            if (comm.rank() == 0) labels.write(data, 0, 0);
            run();
            return labels.wrong(data, 0, 0);
          }};
}

Operation barrier(const Setting& setting) {
  const comm::Communicator comm = setting.comm;
  const auto run = [comm] { comm::barrier(comm); };
  return {0, 0, run, [run] {
            run();
            return std::int64_t{0};
          }};
}

// Rank 0 and the last one, which is on another node if any is, send the bytes to and fro.
Operation point_to_point(const Setting& setting) {
  constexpr std::string_view kOperation = "point_to_point";
  const int rank = setting.comm.rank(), last = setting.comm.size() - 1;
  const bool plays = rank == 0 || rank == last;
  const comm::Communicator pair = setting.comm.split(plays ? 0 : 1, rank);
  const std::int64_t bytes = equal_part(setting, 1);
  const Slice sent = comm::slice(setting.first, 0, bytes);
  const Slice received = comm::slice(setting.second, 0, bytes);
  const auto run = [=] {
    if (!plays) return;
    const int peer = 1 - pair.rank();
    const auto send = [&] { comm::post_pair(pair, kOperation, peer, sent, peer, {}).wait(); };
    const auto receive = [&] {
      comm::post_pair(pair, kOperation, peer, {}, peer, received).wait();
    };
    if (pair.rank() == 0) send();
    receive();
    if (pair.rank() == 1) send();
  };
  const Labels labels(setting.comm);
  const auto checked_run = [=] {
    labels.write(sent, rank, 0);
    labels.clear(received);
    run();
    return plays ? labels.wrong(received, last - rank, 0) : 0;
  };
  return {bytes, count_of(sent), run, checked_run, 2};
}

}  // namespace ringspan::bench
