// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/trace.hpp"
#include "comm/transport.hpp"

namespace ringspan::bench {

/// `inner`, of all ranks of a world, with what this rank does on it told to `trace`: its waits; the
/// messages that it sends, from the post to when it sees that they are done; and as kernels what it
/// copies and reduces on its device. Groups made from it are told of alike.
std::shared_ptr<comm::Transport> make_traced_transport(std::shared_ptr<comm::Transport> inner,
                                                       comm::Trace trace);

}  // namespace ringspan::bench
