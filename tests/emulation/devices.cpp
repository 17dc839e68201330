// SPDX-License-Identifier: Apache-2.0
// Devices and contexts of the emulated driver. RINGSPAN_EMULATED_GPUS says how many GPUs there are,
// CUDA_VISIBLE_DEVICES which of them a process sees, by number; their UUIDs are those numbers.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "tests/emulation/faults.hpp"
#include "tests/emulation/stream.hpp"

using namespace ringspan::comm::cuda;

struct CUctx_st {
  Ordinal ordinal = 0;
};

namespace {

constexpr int kDevices = 64;
constexpr Status kInvalidDevice = 101, kInvalidContext = 201;

thread_local std::vector<ContextHandle> current;

/// The GPUs that this process sees; as with CUDA, what is no GPU hides those after it.
std::vector<int> visible() {
  const char* const text = std::getenv("RINGSPAN_EMULATED_GPUS");
  const int all = text ? std::atoi(text) : kDevices;
  std::vector<int> gpus(all);
  std::iota(gpus.begin(), gpus.end(), 0);
  const char* const chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!chosen) return gpus;
  gpus.clear();
  std::istringstream list(chosen);
  for (int gpu = 0; list >> gpu && gpu >= 0 && gpu < all; list.ignore()) gpus.push_back(gpu);
  return gpus;
}

int devices() { return static_cast<int>(visible().size()); }

ContextHandle primary(Ordinal ordinal) {
  static std::vector<CUctx_st>* const all = [] {
    auto* contexts = new std::vector<CUctx_st>(kDevices);
    for (int i = 0; i < kDevices; ++i) (*contexts)[i].ordinal = i;
    return contexts;
  }();
  return &(*all)[ordinal];
}

}  // namespace

int emulation::device_count() { return devices(); }

int emulation::current_gpu() {
  return current.empty() ? -1 : visible().at(current.back()->ordinal);
}

int emulation::current_ordinal() { return current.empty() ? -1 : current.back()->ordinal; }

extern "C" {

Status cuInit(unsigned) {
  if (const Status status = emulation_injected("cuInit")) return status;
  return devices() > 0 ? kSuccess : kErrorNoDevice;
}

Status cuDriverGetVersion(int* version) {
  const int other = emulation_injected("driverVersion");
  *version = other ? other : 12040;
  return kSuccess;
}

Status cuGetErrorName(Status status, const char** text) {
  *text = status == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_EMULATED";
  return kSuccess;
}

Status cuGetErrorString(Status, const char** text) {
  *text = "injected, or a fault of the caller";
  return kSuccess;
}

Status cuDeviceGetCount(int* count) {
  *count = devices();
  return kSuccess;
}

Status cuDeviceGetName(char* name, int bytes, Ordinal) {
  std::snprintf(name, bytes, "Emulated GPU");
  return kSuccess;
}

Status cuDeviceGetUuid_v2(Uuid* uuid, Ordinal ordinal) {
  *uuid = {};
  uuid->bytes[0] = static_cast<char>(visible().at(ordinal));
  return kSuccess;
}

Status cuDeviceGetAttribute(int* value, int attribute, Ordinal) {
  *value = attribute == kComputeCapabilityMajor ? 9 : 0;
  return kSuccess;
}

Status cuDeviceTotalMem_v2(std::size_t* bytes, Ordinal) {
  *bytes = std::size_t{16} << 30;  // enough for what tests allocate, of the host
  return kSuccess;
}

Status cuDeviceCanAccessPeer(int* can, Ordinal device, Ordinal peer) {
  *can = device != peer && !emulation_injected("peerAccess");
  return kSuccess;
}

Status cuDevicePrimaryCtxRetain(ContextHandle* context, Ordinal ordinal) {
  if (ordinal < 0 || ordinal >= devices()) return kInvalidDevice;
  *context = primary(ordinal);
  return kSuccess;
}

Status cuDevicePrimaryCtxRelease_v2(Ordinal) { return kSuccess; }

Status cuCtxPushCurrent_v2(ContextHandle context) {
  current.push_back(context);
  return kSuccess;
}

Status cuCtxPopCurrent_v2(ContextHandle* context) {
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}
}
