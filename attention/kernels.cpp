// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels.hpp"

#include "attention/kernels/families.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

template <KernelLibrary library, bool fused_merge>
std::unique_ptr<Kernels> modelled(comm::Device& device) {
  return make_modelled_kernels(device, {library, fused_merge});
}

}  // namespace

std::span<const KernelFamily> kernel_families() {
  static constexpr KernelFamily kFamilies[] = {
      {"reference", "slow and obvious, fp64 inside", make_reference_kernels},
      {"reproducible", "the same bits on every number of ranks and in every schedule",
       make_reproducible_kernels},
      {"cpu", "SIMD, blocked, near the machine's peak", make_cpu_kernels},
      {"cuda", "on a GPU, tensor cores for bf16 and fp16 up to 256 wide, slow for the rest",
       make_cuda_kernels},
      {"cudnn", "on a GPU, cuDNN where it can, else as cuda", make_cudnn_kernels},
      {"null", "moves data but computes no attention, for communication alone", make_null_kernels},
  };
  return kFamilies;
}

std::span<const KernelFamily> modelled_kernel_families() {
  using enum KernelLibrary;
  static constexpr KernelFamily kFamilies[] = {
      {"modelled", "times of the library written for the GPU", make_usual_kernels},
      {"modelled:fa2", "FlashAttention-2", modelled<fa2, false>},
      {"modelled:fa3", "FlashAttention-3", modelled<fa3, false>},
      {"modelled:fa4", "FlashAttention-4", modelled<fa4, false>},
      {"modelled:cudnn", "cuDNN", modelled<cudnn, false>},
      {"modelled:fa2+fused", "FlashAttention-2, blocks merged by one kernel", modelled<fa2, true>},
      {"modelled:fa3+fused", "FlashAttention-3, blocks merged by one kernel", modelled<fa3, true>},
      {"modelled:fa4+fused", "FlashAttention-4, blocks merged by one kernel", modelled<fa4, true>},
      {"modelled:cudnn+fused", "cuDNN, blocks merged by one kernel", modelled<cudnn, true>},
  };
  return kFamilies;
}

std::unique_ptr<Kernels> make_kernels(std::string_view name, comm::Device& device) {
  for (const auto& families : {kernel_families(), modelled_kernel_families()}) {
    for (const KernelFamily& family : families) {
      if (family.name != name) continue;
      const bool modelled = families.data() != kernel_families().data();
      const bool for_gpus = name == "cuda" || name == "cudnn" || name == "null";
      if (!modelled && !for_gpus) require_host_memory(name, device);
      return family.make(device);
    }
  }
  RINGSPAN_REQUIRE(false, "unknown kernel '", name, "'; known are ",
                   name_list(kernel_families(), &KernelFamily::name), ", ",
                   name_list(modelled_kernel_families(), &KernelFamily::name));
  return nullptr;
}

}  // namespace ringspan::attention
