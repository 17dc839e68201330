// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/kernel_span.hpp"

#include "comm/error.hpp"

namespace ringspan::comm::cuda {

KernelSpan::KernelSpan(const CudaDevice& device, std::string_view name)
    : range_(name),
      device_(device),
      name_(name),
      start_(device.timeline() ? device.timeline()->mark(device.compute()) : nullptr) {}

// A failure of the GPU is reported by whoever looks at it next.
KernelSpan::~KernelSpan() {
  if (!start_) return;
  try {
    device_.timeline()->add(TraceSpan::Kind::kernel, name_, start_,
                            device_.timeline()->mark(device_.compute()));
  } catch (const Error&) {
  }
}

}  // namespace ringspan::comm::cuda
