// SPDX-License-Identifier: Apache-2.0
#include "model/shard_batch.hpp"

#include <algorithm>

#include "comm/error.hpp"
#include "model/loss.hpp"

namespace ringspan::model {
namespace {

bool weighted(const Sample& sample) { return !sample.weights.empty(); }

}  // namespace

NextTokens next_tokens(const Sample& sample, const attention::Sequence& sequence) {
  NextTokens next;
  next.labels.assign(sequence.length, kIgnoredLabel);
  if (weighted(sample)) next.weights.assign(sequence.length, 0);
  const std::vector<std::int64_t>& targets = sample.targets.empty() ? sample.ids : sample.targets;
  const std::vector<std::int64_t> whole{std::ssize(sample.ids)};
  std::int64_t end = 0;
  for (const std::int64_t document : sequence.documents.empty() ? whole : sequence.documents) {
    const std::int64_t first = end;
    end += document;
    for (std::int64_t token = first; token + 1 < end; ++token) {
      const float weight = weighted(sample) ? sample.weights[token + 1] : 1;
      if (weight == 0 || targets[token + 1] == kIgnoredLabel) continue;
      next.labels[token] = targets[token + 1];
      if (weighted(sample)) next.weights[token] = weight;
    }
  }
  return next;
}

Tokens shard_batch(std::span<const Sample> batch, const attention::Sequence& sequence,
                   const attention::Shard& shard, std::int64_t first_sample) {
  const attention::Sequence own = common_sequence(batch, sequence.length);
  RINGSPAN_REQUIRE(own.length == sequence.length && own.documents == sequence.documents,
                   "shard_batch: the sequence is not common_sequence() of this batch");
  const bool any_weighted = std::any_of(batch.begin(), batch.end(), weighted);
  const std::vector<std::int64_t> places = attention::positions(shard);
  for (const std::int64_t place : places) {
    RINGSPAN_REQUIRE(place >= 0 && place < sequence.length, "shard_batch: the shard has place ",
                     place, " of a sequence of ", sequence.length,
                     " tokens; it must be what the schedule says of this sequence");
  }
  std::vector<NextTokens> next;
  for (const Sample& sample : batch) next.push_back(next_tokens(sample, sequence));
  const auto in_documents = attention::document_positions(shard, sequence);

  Tokens tokens;
  tokens.batch = std::ssize(batch);
  for (std::size_t token = 0; token < places.size(); ++token) {
    const auto [document, position] = in_documents[token];
    const std::int64_t place = places[token];
    for (std::int64_t entry = 0; entry < tokens.batch; ++entry) {
      const auto& [labels, weights] = next[entry];
      const bool padding = document < 0;
      tokens.ids.push_back(padding ? 0 : batch[entry].ids[place]);
      tokens.labels.push_back(labels[place]);
      tokens.positions.push_back(padding ? 0 : position);
      tokens.places.push_back(place);
      tokens.samples.push_back(first_sample + entry);
      if (any_weighted) {
        const float unweighted = labels[place] == kIgnoredLabel ? 0 : 1;
        tokens.weights.push_back(weights.empty() ? unweighted : weights[place]);
      }
    }
  }
  return tokens;
}

}  // namespace ringspan::model
