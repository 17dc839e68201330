// SPDX-License-Identifier: Apache-2.0
#include "comm/error.hpp"

namespace ringspan {

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "invalid_argument";
    case ErrorKind::not_available: return "not_available";
    case ErrorKind::system: return "system";
    case ErrorKind::peer_failed: return "peer_failed";
    case ErrorKind::timeout: return "timeout";
    case ErrorKind::aborted: return "aborted";
  }
  return "unknown";
}

}  // namespace ringspan
