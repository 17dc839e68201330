// SPDX-License-Identifier: Apache-2.0
#include "comm/device.hpp"

#include "comm/error.hpp"

namespace ringspan::comm {

void Device::copy_all(std::span<const Copy> copies) {
  for (const Copy& each : copies) copy(each.to, each.from);
}

void Device::compute(double, std::string_view kernel) {
  throw Error(ErrorKind::not_available,
              concat(kernel, ": device '", name(), "' has no modelled time; only 'simulated' has"));
}

}  // namespace ringspan::comm
