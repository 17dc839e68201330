// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <ostream>
#include <string>

#include "bench/trace/timeline.hpp"

namespace ringspan::bench {

/// The timeline in the Trace Event Format, which ui.perfetto.dev and chrome://tracing show: a
/// process per rank; in it one track of kernels and waits, and as many of messages as were under
/// way at once, so that none overlap on a track. Times are microseconds. `about` says what it is
/// of; its "world" stands beside every rank's name.
void write_chrome_trace(std::ostream& stream, const Timeline& timeline,
                        const std::map<std::string, std::string>& about);

}  // namespace ringspan::bench
