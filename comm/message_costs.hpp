// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringspan::comm {

/// What messages of one kind cost a rank while all ranks send such: n of them, of b bytes together
/// and posted at once, have arrived after latency + n per_message + b per_byte seconds.
struct LinkCosts {
  double latency = 0;
  double per_message = 0;
  double per_byte = 0;
};

/// Measured by probe(), or known to the caller; equal on all ranks.
struct MessageCosts {
  LinkCosts inter_node, intra_node;
  double copy_per_byte = 0;  // seconds, on the device
};

}  // namespace ringspan::comm
