// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <string_view>

namespace ringspan::bench {

/// Writes a file that is there as a whole, or stays as it was: it grows under a name of its own in
/// the same folder and then takes its place. A pipe, a device or a link, such as /dev/stdout, is
/// written to directly. Throws system if the file system refuses; `what` begins the message.
void write_whole(std::string_view what, const std::string& file,
                 const std::function<void(std::ostream&)>& write);

/// Throws invalid_argument if write_whole could not even begin; leaves everything as it was.
void require_writable(std::string_view what, const std::string& file);

}  // namespace ringspan::bench
