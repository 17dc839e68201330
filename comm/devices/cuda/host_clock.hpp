// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace ringspan::comm::cuda {

/// The host's time, in seconds, that of Device::now().
double host_seconds();

/// Seconds to sleep between two looks at a queue after having waited so long: what is added to a
/// wait is a small part of it.
double nap_after(double seconds);

/// Looks and naps until `done`. Throws timeout when the deadline, in seconds, has passed.
void wait_on_host(const std::function<bool()>& done, double deadline);

}  // namespace ringspan::comm::cuda
