// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tests/comm/forked_ranks.hpp"
#include "tests/comm/pretended_hosts.hpp"

namespace ringspan::comm {

inline int size(const std::vector<int>& per_host) {
  return std::accumulate(per_host.begin(), per_host.end(), 0);
}

/// As fork_ranks(), on hosts of so many each, and each process with a GPU of its own.
inline std::vector<int> fork_hosts(const std::vector<int>& per_host, double seconds,
                                   const std::function<void(const Bootstrap&)>& body) {
  return fork_ranks(size(per_host), seconds, [&](const Bootstrap& bootstrap) {
    setenv("CUDA_VISIBLE_DEVICES", std::to_string(bootstrap.rank).c_str(), 1);
    body(test::on_hosts(bootstrap, per_host));
  });
}

}  // namespace ringspan::comm
