// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/device.hpp"

namespace ringspan::comm {

/// This process's memory and the calling thread. With `poison`, buffers hold NaN when they are
/// handed out and again when they are released.
std::unique_ptr<Device> make_host_device(bool poison = false);

/// to = from, row by row, on the host; the slices have equal bytes.
void copy_slice(const Slice& to, const Slice& from);

}  // namespace ringspan::comm
