// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <climits>
#include <cstddef>
#include <memory>
#include <string>

#include "comm/devices/cuda/api.hpp"

// What NCCL's header declares, as far as it is used here. Names and values are those of nccl.h,
// version 2.18, which later versions keep.
struct ncclComm;

namespace ringspan::comm::nccl {

using Status = int;  // ncclResult_t
using CommHandle = ncclComm*;

inline constexpr Status kSuccess = 0;      // ncclSuccess
inline constexpr Status kRemoteError = 6;  // ncclRemoteError
inline constexpr Status kInProgress = 7;   // ncclInProgress
inline constexpr int kBytes = 0;           // ncclInt8, an ncclDataType_t
inline constexpr int kVersion = 21800;     // NCCL_VERSION(2, 18, 0): what Config is laid out for

struct UniqueId {  // ncclUniqueId
  char bytes[128] = {};
};

struct Config {  // ncclConfig_t: its size says how far it goes, INT_MIN leaves a choice to NCCL
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;  // NCCL_API_MAGIC
  unsigned version = kVersion;
  int blocking = INT_MIN;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

/// NCCL's functions. Filled from libnccl.so.2; each is named in api.cpp.
struct Api {
  Status (*get_version)(int* version);
  Status (*get_unique_id)(UniqueId*);
  Status (*init_rank)(CommHandle*, int ranks, UniqueId, int rank, Config*);
  Status (*finalize)(CommHandle);
  Status (*destroy)(CommHandle);
  Status (*abort)(CommHandle);
  Status (*async_error)(CommHandle, Status*);
  const char* (*error_string)(Status);
  const char* (*last_error)(CommHandle);
  Status (*group_start)();
  Status (*group_end)();
  Status (*send)(const void*, std::size_t count, int type, int peer, CommHandle,
                 cuda::StreamHandle);
  Status (*receive)(void*, std::size_t count, int type, int peer, CommHandle, cuda::StreamHandle);
};

/// Throws not_available with the reason: no library, or one older than 2.18.
std::shared_ptr<const Api> load_nccl();

/// Throws, in NCCL's own words, peer_failed if another rank is at fault, system for any other
/// failure. A call that is in progress has not failed. The communicator may be null.
void check(const Api& api, Status status, CommHandle comm, const char* call);

/// "2.21.5"
std::string version_text(const Api& api);

}  // namespace ringspan::comm::nccl
