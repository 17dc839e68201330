// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/faults.hpp"

#include <map>
#include <mutex>
#include <string>

namespace {

struct Fault {
  int skip = 0, times = 0, status = 0;
};

struct Faults {
  std::mutex mutex;
  std::map<std::string, Fault> by_call;
};

// Never destroyed: streams may run until the process ends.
Faults& faults() {
  static Faults* const all = new Faults;
  return *all;
}

}  // namespace

extern "C" void emulation_fail(const char* call, int skip, int times, int status) {
  const std::lock_guard lock(faults().mutex);
  faults().by_call[call] = {skip, times, status};
}

extern "C" int emulation_injected(const char* call) {
  const std::lock_guard lock(faults().mutex);
  const auto found = faults().by_call.find(call);
  if (found == faults().by_call.end()) return 0;
  Fault& fault = found->second;
  if (fault.skip > 0) {
    --fault.skip;
    return 0;
  }
  if (fault.times == 0) return 0;
  --fault.times;
  return fault.status;
}
