// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels.hpp"

#include "attention/kernels/families.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {

std::span<const KernelFamily> kernel_families() {
  static constexpr KernelFamily kFamilies[] = {
      {"reference", "slow and obvious, fp64 inside", make_reference_kernels},
      {"cpu", "SIMD, blocked, near the machine's peak", make_cpu_kernels},
      {"null", "moves data but computes no attention, for communication alone", make_null_kernels},
  };
  return kFamilies;
}

std::unique_ptr<Kernels> make_kernels(std::string_view name, comm::Device& device) {
  for (const KernelFamily& family : kernel_families()) {
    if (family.name == name) return family.make(device);
  }
  RINGSPAN_REQUIRE(false, "unknown kernel '", name, "'; known are ",
                   name_list(kernel_families(), &KernelFamily::name));
  return nullptr;
}

}  // namespace ringspan::attention
