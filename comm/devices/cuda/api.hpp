// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

// What the CUDA driver's header declares, as far as it is used here, so that nothing of CUDA is
// needed to build. Names and values are those of cuda.h, version 12; the driver keeps them for
// ever.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmemPoolHandle_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace ringspan::comm::cuda {

using Status = int;                  // CUresult
using Ordinal = int;                 // CUdevice
using Address = unsigned long long;  // CUdeviceptr
using ContextHandle = CUctx_st*;
using StreamHandle = CUstream_st*;
using EventHandle = CUevent_st*;
using PoolHandle = CUmemPoolHandle_st*;
using ModuleHandle = CUmod_st*;
using FunctionHandle = CUfunc_st*;
using GraphHandle = CUgraph_st*;
using ExecutableHandle = CUgraphExec_st*;  // CUgraphExec
using MemoryHandle = unsigned long long;   // CUmemGenericAllocationHandle

inline constexpr Status kSuccess = 0;               // CUDA_SUCCESS
inline constexpr Status kErrorOutOfMemory = 2;      // CUDA_ERROR_OUT_OF_MEMORY
inline constexpr Status kErrorNoDevice = 100;       // CUDA_ERROR_NO_DEVICE
inline constexpr Status kErrorInvalidImage = 200;   // CUDA_ERROR_INVALID_IMAGE
inline constexpr Status kErrorAlreadyMapped = 208;  // CUDA_ERROR_ALREADY_MAPPED
inline constexpr Status kErrorNoBinary = 209;       // CUDA_ERROR_NO_BINARY_FOR_GPU
inline constexpr Status kErrorInvalidPtx = 218;     // CUDA_ERROR_INVALID_PTX
inline constexpr Status kErrorNewerPtx = 222;       // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
inline constexpr Status kErrorInvalidHandle = 400;  // CUDA_ERROR_INVALID_HANDLE
inline constexpr Status kErrorNotReady = 600;       // CUDA_ERROR_NOT_READY
inline constexpr unsigned kStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
inline constexpr int kCaptureThreadLocal = 1;       // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr unsigned kEventDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kHostAllocPortable = 1;   // CU_MEMHOSTALLOC_PORTABLE
inline constexpr int kComputeCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_..._MAJOR
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kMaxDynamicSharedBytes = 8;    // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_...
inline constexpr int kPoolReleaseThreshold = 4;     // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
inline constexpr unsigned kHostRegisterMapped = 3;  // CU_MEMHOSTREGISTER_PORTABLE and _DEVICEMAP
inline constexpr unsigned kWaitAtLeast = 0;         // CU_STREAM_WAIT_VALUE_GEQ, which wraps
inline constexpr unsigned kIpcLazyPeerAccess = 1;   // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
inline constexpr int kBufferId = 7;                 // CU_POINTER_ATTRIBUTE_BUFFER_ID
inline constexpr int kHostPointer = 4;              // CU_POINTER_ATTRIBUTE_HOST_POINTER
inline constexpr int kAllowedHandles = 14;          // CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES
inline constexpr int kDescriptorHandle = 1;         // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kFabricHandle = 8;             // CU_MEM_HANDLE_TYPE_FABRIC
inline constexpr int kUnified = 4;                  // CU_MEMORYTYPE_UNIFIED

struct MemcpyRows {  // CUDA_MEMCPY2D_v2
  std::size_t from_x = 0, from_y = 0;
  int from_type = kUnified;
  const void* from_host = nullptr;
  Address from = 0;
  void* from_array = nullptr;
  std::size_t from_pitch = 0;
  std::size_t to_x = 0, to_y = 0;
  int to_type = kUnified;
  void* to_host = nullptr;
  Address to = 0;
  void* to_array = nullptr;
  std::size_t to_pitch = 0;
  std::size_t row_bytes = 0, rows = 0;
};

struct IpcHandle {  // CUipcMemHandle, CUmemFabricHandle: of a whole allocation, for other processes
  char bytes[64] = {};
};

struct Uuid {  // CUuuid
  char bytes[16] = {};

  bool operator==(const Uuid&) const = default;
};

struct MemoryAccess {  // CUmemAccessDesc
  int location = 1;    // CU_MEM_LOCATION_TYPE_DEVICE
  Ordinal device = 0;  // who may reach a pool, or what is mapped
  int flags = 3;       // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};

/// The driver's functions. Filled from libcuda.so.1; each is named in api.cpp.
struct Api {
  Status (*init)(unsigned flags);
  Status (*driver_version)(int* version);
  Status (*error_name)(Status, const char** text);
  Status (*error_string)(Status, const char** text);
  Status (*device_count)(int* count);
  Status (*device_name)(char* name, int bytes, Ordinal);
  Status (*device_attribute)(int* value, int attribute, Ordinal);
  Status (*device_uuid)(Uuid*, Ordinal);  // of a part, where the device is one
  Status (*total_memory)(std::size_t* bytes, Ordinal);
  Status (*can_access_peer)(int* can, Ordinal, Ordinal peer);

  Status (*retain_primary_context)(ContextHandle*, Ordinal);
  Status (*release_primary_context)(Ordinal);
  Status (*push_context)(ContextHandle);
  Status (*pop_context)(ContextHandle*);

  Status (*stream_create)(StreamHandle*, unsigned flags);
  Status (*stream_destroy)(StreamHandle);
  Status (*stream_query)(StreamHandle);
  Status (*stream_wait_event)(StreamHandle, EventHandle, unsigned flags);
  Status (*launch_host_function)(StreamHandle, void (*function)(void*), void* data);
  Status (*event_create)(EventHandle*, unsigned flags);
  Status (*event_destroy)(EventHandle);
  Status (*event_record)(EventHandle, StreamHandle);
  Status (*event_query)(EventHandle);
  Status (*elapsed_time)(float* milliseconds, EventHandle start, EventHandle end);

  Status (*allocate)(Address*, std::size_t bytes, StreamHandle);
  Status (*release)(Address, StreamHandle);
  Status (*allocate_host)(void**, std::size_t bytes, unsigned flags);
  Status (*release_host)(void*);
  Status (*copy)(Address to, Address from, std::size_t bytes, StreamHandle);
  Status (*copy_rows)(const MemcpyRows*, StreamHandle);
  Status (*fill)(Address, unsigned char value, std::size_t bytes, StreamHandle);
  Status (*pointer_attribute)(void* value, int attribute, Address);

  // Waits for, and sets, 32 bits that the host and other processes reach, too.
  Status (*wait_value)(StreamHandle, Address, std::uint32_t value, unsigned flags);
  Status (*write_value)(StreamHandle, Address, std::uint32_t value, unsigned flags);
  Status (*register_host)(void*, std::size_t bytes, unsigned flags);
  Status (*unregister_host)(void*);
  Status (*host_address)(Address*, void*, unsigned flags);

  Status (*allocate_exportable)(Address*, std::size_t bytes);
  Status (*release_exportable)(Address);
  Status (*export_memory)(IpcHandle*, Address);
  Status (*import_memory)(Address*, IpcHandle, unsigned flags);
  Status (*close_import)(Address);

  // Memory that is mapped at addresses of one's own choice.
  Status (*address_range)(Address* base, std::size_t* bytes, Address);
  Status (*retain_memory)(MemoryHandle*, void* mapped);
  Status (*release_memory)(MemoryHandle);
  Status (*export_handle)(void* shareable, MemoryHandle, int kind, unsigned long long flags);
  Status (*import_handle)(MemoryHandle*, void* shareable, int kind);
  Status (*reserve_addresses)(Address*, std::size_t bytes, std::size_t alignment, Address wanted,
                              unsigned long long flags);
  Status (*free_addresses)(Address, std::size_t bytes);
  Status (*map_memory)(Address, std::size_t bytes, std::size_t offset, MemoryHandle,
                       unsigned long long flags);
  Status (*unmap_memory)(Address, std::size_t bytes);
  Status (*set_access)(Address, std::size_t bytes, const MemoryAccess*, std::size_t count);

  Status (*default_pool)(PoolHandle*, Ordinal);
  Status (*set_pool_attribute)(PoolHandle, int attribute, void* value);
  Status (*set_pool_access)(PoolHandle, const MemoryAccess*, std::size_t count);

  Status (*load_module)(ModuleHandle*, const void* image);
  Status (*unload_module)(ModuleHandle);
  Status (*find_function)(FunctionHandle*, ModuleHandle, const char* name);
  Status (*set_function_attribute)(FunctionHandle, int attribute, int value);
  Status (*launch)(FunctionHandle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   StreamHandle, void** arguments, void** extra);

  Status (*is_capturing)(StreamHandle, int* status);  // 0: no
  Status (*begin_capture)(StreamHandle, int mode);
  Status (*end_capture)(StreamHandle, GraphHandle*);
  Status (*instantiate_graph)(ExecutableHandle*, GraphHandle, unsigned long long flags);
  Status (*launch_graph)(ExecutableHandle, StreamHandle);
  Status (*destroy_executable)(ExecutableHandle);
  Status (*destroy_graph)(GraphHandle);
};

/// The driver, initialised. Throws not_available with the reason: no driver, one that is too old,
/// or no device.
std::shared_ptr<const Api> load_cuda();

int device_count(const Api& api);

/// "NVIDIA H100 80GB HBM3 (sm_90)"
std::string device_name(const Api& api, Ordinal device);

/// Which one it is, alike in all processes, whatever GPUs they see.
Uuid uuid_of(const Api& api, Ordinal device);

/// Bytes, free or not.
std::int64_t device_memory(const Api& api, Ordinal device);

/// Throws system, in the driver's own words, unless the call has succeeded.
void check(const Api& api, Status status, const char* call);

}  // namespace ringspan::comm::cuda
