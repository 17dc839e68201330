// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/api.hpp"

#include <array>

#include "comm/dynamic_library.hpp"
#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

constexpr int kOldestDriver = 12000;  // CUDA 12.0, as cuDriverGetVersion counts

std::string words(const Api& api, Status status) {
  const char *name = nullptr, *text = nullptr;
  if (api.error_name(status, &name) != kSuccess) return concat("error ", status);
  api.error_string(status, &text);
  return concat(name, ": ", text ? text : "no description");
}

// The suffix is part of a function's name where its arguments once changed.
void find_devices(const DynamicLibrary& library, Api& api) {
  library.find(api.init, "cuInit");
  library.find(api.driver_version, "cuDriverGetVersion");
  library.find(api.error_name, "cuGetErrorName");
  library.find(api.error_string, "cuGetErrorString");
  library.find(api.device_count, "cuDeviceGetCount");
  library.find(api.device_name, "cuDeviceGetName");
  library.find(api.device_attribute, "cuDeviceGetAttribute");
  library.find(api.device_uuid, "cuDeviceGetUuid_v2");
  library.find(api.total_memory, "cuDeviceTotalMem_v2");
  library.find(api.can_access_peer, "cuDeviceCanAccessPeer");
  library.find(api.retain_primary_context, "cuDevicePrimaryCtxRetain");
  library.find(api.release_primary_context, "cuDevicePrimaryCtxRelease_v2");
  library.find(api.push_context, "cuCtxPushCurrent_v2");
  library.find(api.pop_context, "cuCtxPopCurrent_v2");
}

void find_streams(const DynamicLibrary& library, Api& api) {
  library.find(api.stream_create, "cuStreamCreate");
  library.find(api.stream_destroy, "cuStreamDestroy_v2");
  library.find(api.stream_query, "cuStreamQuery");
  library.find(api.stream_wait_event, "cuStreamWaitEvent");
  library.find(api.launch_host_function, "cuLaunchHostFunc");
  library.find(api.event_create, "cuEventCreate");
  library.find(api.event_destroy, "cuEventDestroy_v2");
  library.find(api.event_record, "cuEventRecord");
  library.find(api.event_query, "cuEventQuery");
  library.find(api.elapsed_time, "cuEventElapsedTime");
}

void find_memory(const DynamicLibrary& library, Api& api) {
  library.find(api.allocate, "cuMemAllocAsync");
  library.find(api.release, "cuMemFreeAsync");
  library.find(api.allocate_host, "cuMemHostAlloc");
  library.find(api.release_host, "cuMemFreeHost");
  library.find(api.copy, "cuMemcpyAsync");
  library.find(api.copy_rows, "cuMemcpy2DAsync_v2");
  library.find(api.fill, "cuMemsetD8Async");
  library.find(api.pointer_attribute, "cuPointerGetAttribute");
  library.find(api.default_pool, "cuDeviceGetDefaultMemPool");
  library.find(api.set_pool_attribute, "cuMemPoolSetAttribute");
  library.find(api.set_pool_access, "cuMemPoolSetAccess");
}

void find_sharing(const DynamicLibrary& library, Api& api) {
  library.find(api.wait_value, "cuStreamWaitValue32_v2");
  library.find(api.write_value, "cuStreamWriteValue32_v2");
  library.find(api.register_host, "cuMemHostRegister_v2");
  library.find(api.unregister_host, "cuMemHostUnregister");
  library.find(api.host_address, "cuMemHostGetDevicePointer_v2");
  library.find(api.allocate_exportable, "cuMemAlloc_v2");
  library.find(api.release_exportable, "cuMemFree_v2");
  library.find(api.export_memory, "cuIpcGetMemHandle");
  library.find(api.import_memory, "cuIpcOpenMemHandle_v2");
  library.find(api.close_import, "cuIpcCloseMemHandle");
}

void find_mapping(const DynamicLibrary& library, Api& api) {
  library.find(api.address_range, "cuMemGetAddressRange_v2");
  library.find(api.retain_memory, "cuMemRetainAllocationHandle");
  library.find(api.release_memory, "cuMemRelease");
  library.find(api.export_handle, "cuMemExportToShareableHandle");
  library.find(api.import_handle, "cuMemImportFromShareableHandle");
  library.find(api.reserve_addresses, "cuMemAddressReserve");
  library.find(api.free_addresses, "cuMemAddressFree");
  library.find(api.map_memory, "cuMemMap");
  library.find(api.unmap_memory, "cuMemUnmap");
  library.find(api.set_access, "cuMemSetAccess");
}

void find_modules(const DynamicLibrary& library, Api& api) {
  library.find(api.load_module, "cuModuleLoadData");
  library.find(api.unload_module, "cuModuleUnload");
  library.find(api.find_function, "cuModuleGetFunction");
  library.find(api.set_function_attribute, "cuFuncSetAttribute");
  library.find(api.launch, "cuLaunchKernel");
}

void find_graphs(const DynamicLibrary& library, Api& api) {
  library.find(api.is_capturing, "cuStreamIsCapturing");
  library.find(api.begin_capture, "cuStreamBeginCapture_v2");
  library.find(api.end_capture, "cuStreamEndCapture");
  library.find(api.instantiate_graph, "cuGraphInstantiateWithFlags");
  library.find(api.launch_graph, "cuGraphLaunch");
  library.find(api.destroy_executable, "cuGraphExecDestroy");
  library.find(api.destroy_graph, "cuGraphDestroy");
}

}  // namespace

std::shared_ptr<const Api> load_cuda() {
  const DynamicLibrary library("no CUDA device: no driver", "libcuda.so.1");
  const auto api = std::make_shared<Api>();
  find_devices(library, *api);
  find_streams(library, *api);
  find_memory(library, *api);
  find_sharing(library, *api);
  find_mapping(library, *api);
  find_modules(library, *api);
  find_graphs(library, *api);

  const Status status = api->init(0);
  if (status == kErrorNoDevice) throw Error(ErrorKind::not_available, "no CUDA device");
  if (status != kSuccess)
    throw Error(ErrorKind::not_available,
                concat("the CUDA driver does not start: ", words(*api, status)));
  int version = 0;
  check(*api, api->driver_version(&version), "cuDriverGetVersion");
  if (version < kOldestDriver) {
    throw Error(ErrorKind::not_available,
                concat("the CUDA driver is for CUDA ", version / 1000, ".", version % 1000 / 10,
                       "; ", kOldestDriver / 1000, ".0 is needed"));
  }
  if (device_count(*api) == 0) throw Error(ErrorKind::not_available, "no CUDA device");
  return api;
}

int device_count(const Api& api) {
  int count = 0;
  check(api, api.device_count(&count), "cuDeviceGetCount");
  return count;
}

std::string device_name(const Api& api, Ordinal device) {
  std::array<char, 128> text{};
  int major = 0, minor = 0;
  check(api, api.device_name(text.data(), text.size(), device), "cuDeviceGetName");
  check(api, api.device_attribute(&major, kComputeCapabilityMajor, device), "cuDeviceGetAttribute");
  check(api, api.device_attribute(&minor, kComputeCapabilityMinor, device), "cuDeviceGetAttribute");
  return concat(text.data(), " (sm_", major, minor, ")");
}

Uuid uuid_of(const Api& api, Ordinal device) {
  Uuid uuid;
  check(api, api.device_uuid(&uuid, device), "cuDeviceGetUuid");
  return uuid;
}

std::int64_t device_memory(const Api& api, Ordinal device) {
  std::size_t bytes = 0;
  check(api, api.total_memory(&bytes, device), "cuDeviceTotalMem");
  return static_cast<std::int64_t>(bytes);
}

void check(const Api& api, Status status, const char* call) {
  if (status == kSuccess) return;
  throw Error(ErrorKind::system, concat(call, ": ", words(api, status)));
}

}  // namespace ringspan::comm::cuda
