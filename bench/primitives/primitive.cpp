// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/primitive.hpp"

#include "bench/primitives/labels.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr NcclNotes kInPlace{true}, kInPlaceSum{true, "sum"}, kInPlaceFromFirst{true, "none", 0};

constexpr Primitive kPrimitives[] = {
    {"point_to_point", "point_to_point", BusFactor::one, point_to_point},
    {"barrier", "barrier", BusFactor::none, barrier},
    {"ring_exchange", "ring", BusFactor::one, ring_to_next},
    {"ring_exchange_to_prev", "ring", BusFactor::one, ring_to_prev},
    {"bidirectional_ring", "ring", BusFactor::one, bidirectional_ring},
    {"double_ring", "ring", BusFactor::others, double_ring},
    {"all_to_all_direct", "all_to_all", BusFactor::others, all_to_all_direct},
    {"all_to_all_hierarchical", "all_to_all", BusFactor::others, all_to_all_hierarchical},
    {"all_to_all_automatic", "all_to_all", BusFactor::others, all_to_all_automatic},
#ifdef RINGSPAN_BENCH_MPI
    {"mpi_alltoall", "all_to_all", BusFactor::others, mpi_alltoall, {}, "mpi"},
#endif
    {"all_to_all_v", "all_to_all", BusFactor::others, all_to_all_v},
    {"all_gather", "all_gather", BusFactor::others, all_gather, kInPlace},
    {"reduce_scatter", "reduce_scatter", BusFactor::others, reduce_scatter, kInPlaceSum},
    {"all_reduce", "all_reduce", BusFactor::two_others, all_reduce, kInPlaceSum},
    {"broadcast", "broadcast", BusFactor::one, broadcast, kInPlaceFromFirst},
};

}  // namespace

std::span<const Primitive> primitives() { return kPrimitives; }

std::int64_t equal_part(const Setting& setting, std::int64_t parts) {
  const std::int64_t elements = setting.bytes / kLabelBytes / parts;
  RINGSPAN_REQUIRE(elements > 0, setting.bytes, " bytes are too few for ", setting.comm.size(),
                   " ranks; the least is ", parts * kLabelBytes);
  return elements * kLabelBytes;
}

}  // namespace ringspan::bench
