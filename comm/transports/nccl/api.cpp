// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/nccl/api.hpp"

#include "comm/dynamic_library.hpp"
#include "comm/error.hpp"

namespace ringspan::comm::nccl {
namespace {

int version_of(const Api& api) {
  int version = 0;
  if (api.get_version(&version) != kSuccess)
    throw Error(ErrorKind::not_available, "NCCL does not say which version it is");
  return version;
}

// Up to 2.8 the minor version had a hundred numbers, not a hundred hundreds.
std::string text_of(int version) {
  const int major = version < 10000 ? version / 1000 : version / 10000;
  const int minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
  return concat(major, ".", minor, ".", version % 100);
}

}  // namespace

std::shared_ptr<const Api> load_nccl() {
  const DynamicLibrary library("no NCCL", "libnccl.so.2");
  const auto api = std::make_shared<Api>();
  library.find(api->get_version, "ncclGetVersion");
  if (version_of(*api) < kVersion) {
    throw Error(ErrorKind::not_available, concat("NCCL is version ", text_of(version_of(*api)),
                                                 "; ", text_of(kVersion), " is needed"));
  }
  library.find(api->get_unique_id, "ncclGetUniqueId");
  library.find(api->init_rank, "ncclCommInitRankConfig");
  library.find(api->finalize, "ncclCommFinalize");
  library.find(api->destroy, "ncclCommDestroy");
  library.find(api->abort, "ncclCommAbort");
  library.find(api->async_error, "ncclCommGetAsyncError");
  library.find(api->error_string, "ncclGetErrorString");
  library.find(api->last_error, "ncclGetLastError");
  library.find(api->group_start, "ncclGroupStart");
  library.find(api->group_end, "ncclGroupEnd");
  library.find(api->send, "ncclSend");
  library.find(api->receive, "ncclRecv");
  return api;
}

void check(const Api& api, Status status, CommHandle comm, const char* call) {
  if (status == kSuccess || status == kInProgress) return;
  const char* const more = api.last_error(comm);
  throw Error(
      status == kRemoteError ? ErrorKind::peer_failed : ErrorKind::system,
      concat(call, ": ", api.error_string(status), more && *more ? ": " : "", more ? more : ""));
}

std::string version_text(const Api& api) { return text_of(version_of(api)); }

}  // namespace ringspan::comm::nccl
