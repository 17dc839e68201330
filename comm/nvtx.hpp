// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ringspan::comm {

/// What this thread does, by name, in the timeline of a profiler: from here to the end of the
/// scope; ranges nest. Profilers (Nsight Systems) name the library that wants to know in the
/// environment, by NVTX_INJECTION64_PATH; without one a range is a comparison.
class NvtxRange {
 public:
  explicit NvtxRange(std::string_view name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace ringspan::comm
