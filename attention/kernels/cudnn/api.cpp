// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cudnn/api.hpp"

#include <array>

#include "comm/dynamic_library.hpp"
#include "comm/error.hpp"

namespace ringspan::attention::cudnn {

std::shared_ptr<const Api> load_cudnn() {
  const comm::DynamicLibrary library("no cuDNN", "libcudnn.so.9");
  const auto api = std::make_shared<Api>();
  library.find(api->version, "cudnnGetVersion");
  library.find(api->error_string, "cudnnGetErrorString");
  library.find(api->last_error, "cudnnGetLastErrorString");
  library.find(api->create_handle, "cudnnCreate");
  library.find(api->destroy_handle, "cudnnDestroy");
  library.find(api->set_stream, "cudnnSetStream");
  library.find(api->create, "cudnnBackendCreateDescriptor");
  library.find(api->destroy, "cudnnBackendDestroyDescriptor");
  library.find(api->set, "cudnnBackendSetAttribute");
  library.find(api->get, "cudnnBackendGetAttribute");
  library.find(api->finalize, "cudnnBackendFinalize");
  library.find(api->execute, "cudnnBackendExecute");
  if (api->version() < kOldest)
    throw Error(ErrorKind::not_available,
                concat("cuDNN ", version_text(*api), " is too old; 9.27 is needed"));
  return api;
}

std::string version_text(const Api& api) {
  const std::size_t version = api.version();
  return concat(version / 10000, '.', version % 10000 / 100, '.', version % 100);
}

// The category, less what an installation lacks: driver, runtime, parts of cuDNN or of NVRTC.
bool cannot(Status status) {
  constexpr Status kCategory = 1000, kDriver = 3005, kRuntime = 3006, kPrerequisite = 3008,
                   kSublibrary = 3009;
  return status / kCategory == kNotSupported / kCategory && status != kDriver &&
         status != kRuntime && status != kPrerequisite && status != kSublibrary;
}

void check(const Api& api, Status status, const char* call) {
  if (status == kSuccess) return;
  std::array<char, 512> reason{};
  api.last_error(reason.data(), reason.size());
  throw Error(cannot(status) ? ErrorKind::not_available : ErrorKind::system,
              concat("cuDNN: ", call, ": ", api.error_string(status), ": ", reason.data()));
}

}  // namespace ringspan::attention::cudnn
