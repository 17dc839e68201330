// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "comm/transport.hpp"

namespace ringspan::comm::test {

/// When a rank does wrong, counted in its posts over all groups, and what.
struct Injection {
  int posts_before = -1;  // none are counted while it is negative
  std::function<void()> strike = {};
  bool wrong_size = false;  // then one message is longer than it should be
};

/// Forwards to `inner`, and injects the fault into one post.
std::shared_ptr<Transport> make_faulty_transport(std::shared_ptr<Transport> inner,
                                                 std::shared_ptr<Injection> injection);

}  // namespace ringspan::comm::test
