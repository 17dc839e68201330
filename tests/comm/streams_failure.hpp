// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "tests/comm/streams.hpp"
#include "tests/emulation/faults.hpp"

namespace ringspan::comm::test {

// Seconds. A failure is thrown once no stream touches the rank's memory, or as long after: so short
// that tests do not wait, so long that the streams, which are threads, have had a core by then.
#ifdef RINGSPAN_SANITIZED
inline constexpr double kDeadline = 1;
#else
inline constexpr double kDeadline = 0.1;
#endif

inline std::optional<Error> failure_of(const char* transport, const LaunchOptions& options,
                                       const RankFunction& body) {
  try {
    launch(transport, options, body);
  } catch (const Error& error) {
    return error;
  }
  return {};
}

/// No fault outlives its test.
class InjectedFaultTest : public testing::Test {
 protected:
  ~InjectedFaultTest() override {
    for (const char* call :
         {"ncclKernel", "asyncError", "ncclVersion", "driverVersion", "cuInit", "cuEventQuery",
          "cuMemAllocAsync", "ncclGroupEnd", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent",
          "cuStreamWaitValue32", "cuStreamWriteValue32", "cuStreamIsCapturing"})
      emulation_fail(call, 0, 0, 0);
  }
};

}  // namespace ringspan::comm::test
