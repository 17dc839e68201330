// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/device_options.hpp"

#include <cstdint>
#include <exception>
#include <utility>

#include "comm/devices/cuda/reachable_memory.hpp"

namespace ringspan::comm {
namespace {

constexpr std::uintptr_t kAlignment = 64;  // bytes, as Device::allocate() promises

GpuResources bring(const LaunchOptions& options, const cuda::Gpu& gpu, int rank) {
  if (!options.gpu_resources) return {};
  const cuda::Current current(gpu);
  try {
    return options.gpu_resources(rank);
  } catch (const std::exception& error) {  // all ranks are to hear of it as an Error
    throw Error(ErrorKind::not_available, concat("rank ", rank, ": gpu_resources: ", error.what()));
  } catch (...) {
    throw Error(ErrorKind::not_available,
                concat("rank ", rank, ": gpu_resources: unknown exception"));
  }
}

// They are those of whichever context is current, and of the thread that names them.
bool is_default(cuda::StreamHandle handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  return number == 1 || number == 2;  // cudaStreamLegacy, cudaStreamPerThread
}

// An event can only be recorded by streams of its own GPU.
void require_stream_of(const std::shared_ptr<const cuda::Gpu>& gpu, cuda::StreamHandle handle,
                       int rank) {
  RINGSPAN_REQUIRE(!is_default(handle), "rank ", rank,
                   ": gpu_resources: a default stream cannot be brought; make one "
                   "(cudaStreamCreateWithFlags) and use it");
  const cuda::Current current(*gpu);
  const cuda::Event event(gpu);
  const cuda::Status status = gpu->api().event_record(event.handle(), handle);
  RINGSPAN_REQUIRE(status != cuda::kErrorInvalidHandle, "rank ", rank,
                   ": gpu_resources: the compute stream is none of GPU ", gpu->ordinal());
  gpu->check(status, "cuEventRecord");
}

cuda::Allocator allocator_of(GpuResources mine) {
  if (!mine.allocate) return {};
  const auto allocate = [mine](std::int64_t bytes, cuda::StreamHandle stream) {
    void* const memory = mine.allocate(bytes, stream);
    if (reinterpret_cast<std::uintptr_t>(memory) % kAlignment != 0) {
      mine.release(memory, bytes, stream);
      RINGSPAN_REQUIRE(false, "allocate: gpu_resources brings memory at ", memory,
                       ", which is not aligned to ", kAlignment, " bytes");
    }
    return static_cast<std::byte*>(memory);
  };
  return {allocate, std::move(mine.release)};
}

}  // namespace

cuda::DeviceOptions device_options(const LaunchOptions& options,
                                   const std::shared_ptr<const cuda::Gpu>& gpu, int rank) {
  const GpuResources mine = bring(options, *gpu, rank);
  RINGSPAN_REQUIRE(!mine.allocate == !mine.release, "rank ", rank,
                   ": gpu_resources: allocate and release come together");
  RINGSPAN_REQUIRE(!mine.allocate || !options.debug.reachable, "rank ", rank,
                   ": gpu_resources brings memory, and debug.reachable asks for the host's");
  cuda::DeviceOptions device;
  device.compute = static_cast<cuda::StreamHandle>(mine.compute_stream);
  if (device.compute) require_stream_of(gpu, device.compute, rank);
  device.allocator = options.debug.reachable ? cuda::reachable_memory(gpu) : allocator_of(mine);
  device.poison = options.debug.poison;
  device.blocking = options.debug.blocking;
  device.deadline = options.deadline;
  device.rank = rank;
  return device;
}

}  // namespace ringspan::comm
