// SPDX-License-Identifier: Apache-2.0
#include "comm/all_to_all.hpp"

#include <memory>
#include <vector>

#include "bench/primitives/labelled_chunks.hpp"
#include "bench/primitives/labels.hpp"
#include "bench/primitives/primitive.hpp"

namespace ringspan::bench {
namespace {

using comm::AllToAllAlgorithm;

Operation all_to_all(const Setting& setting, const LabelledChunks& chunks,
                     AllToAllAlgorithm algorithm) {
  const auto exchange =
      std::make_shared<comm::AllToAll>(setting.comm, chunks.send(), chunks.recv(), algorithm);
  const auto run = [exchange] {
    exchange->start();
    exchange->finish();
  };
  const bool hierarchical = exchange->choice().algorithm == AllToAllAlgorithm::hierarchical;
  return {.bytes = chunks.bytes(),
          .count = chunks.bytes() / kLabelBytes / setting.comm.size(),
          .run = run,
          .checked_run = [=] { return chunks.checked(run); },
          .algorithm = hierarchical ? "hierarchical" : "direct"};
}

Operation equal_all_to_all(const Setting& setting, AllToAllAlgorithm algorithm) {
  return all_to_all(setting, equal_chunks(setting), algorithm);
}

}  // namespace

Operation all_to_all_direct(const Setting& setting) {
  return equal_all_to_all(setting, AllToAllAlgorithm::direct);
}
Operation all_to_all_hierarchical(const Setting& setting) {
  return equal_all_to_all(setting, AllToAllAlgorithm::hierarchical);
}
Operation all_to_all_automatic(const Setting& setting) {
  return equal_all_to_all(setting, AllToAllAlgorithm::automatic);
}

// To oneself goes an equal share, to the rank at distance d of n the 2 d / n fold: nearly nothing
// to nearly twice as much, and every rank sends and receives S as with equal chunks.
Operation all_to_all_v(const Setting& setting) {
  const int size = setting.comm.size();
  const std::int64_t unit = equal_part(setting, std::int64_t{size} * size);
  return all_to_all(
      setting,
      LabelledChunks(setting,
                     [=](int distance) { return unit * (distance == 0 ? size : 2 * distance); }),
      AllToAllAlgorithm::direct);
}

}  // namespace ringspan::bench
