// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringspan::bench {

enum class Messages { none, empty, full };

/// One of the four runs of a plan whose differences tell what communication costs. The plan does
/// not know which it is in: its transport and kernels are switched underneath.
struct RunMode {
  Messages messages = Messages::full;
  bool kernels = true;
};

inline constexpr RunMode kCompute{Messages::none, true};         // C
inline constexpr RunMode kSynchronised{Messages::empty, true};   // S
inline constexpr RunMode kCommunication{Messages::full, false};  // M
inline constexpr RunMode kOverlapped{Messages::full, true};      // O

}  // namespace ringspan::bench
