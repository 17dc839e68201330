// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringspan::bench {

/// Of the project, as packages that embed it ask for it.
extern const char* const kVersion;

/// `git describe` of the source tree when it was built; "unknown" outside a checkout.
extern const char* const kCommit;

}  // namespace ringspan::bench
