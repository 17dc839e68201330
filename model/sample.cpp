// SPDX-License-Identifier: Apache-2.0
#include "model/sample.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "comm/collectives.hpp"
#include "comm/devices/host.hpp"
#include "model/loss.hpp"
#include "model/random.hpp"

namespace ringspan::model {
namespace {

using Words = std::vector<std::int64_t>;

/// A batch as one run of words: what is sent, and what is compared. Per sample four lengths, then
/// what is so long.
Words to_words(std::span<const Sample> batch) {
  Words words{std::ssize(batch)};
  for (const Sample& sample : batch) {
    for (const auto length : {std::ssize(sample.ids), std::ssize(sample.documents),
                              std::ssize(sample.targets), std::ssize(sample.weights)}) {
      words.push_back(length);
    }
    for (const auto* part : {&sample.ids, &sample.documents, &sample.targets}) {
      words.insert(words.end(), part->begin(), part->end());
    }
    for (const float weight : sample.weights) {
      words.push_back(std::bit_cast<std::int32_t>(weight));
    }
  }
  return words;
}

std::vector<Sample> to_batch(const Words& words) {
  auto next = words.begin();
  std::vector<Sample> batch(*next++);
  for (Sample& sample : batch) {
    const auto lengths = next;
    next += 4;
    const auto take = [&](std::int64_t length) {
      next += length;
      return Words(next - length, next);
    };
    sample.ids = take(lengths[0]);
    sample.documents = take(lengths[1]);
    sample.targets = take(lengths[2]);
    for (const std::int64_t word : take(lengths[3])) {
      sample.weights.push_back(std::bit_cast<float>(static_cast<std::int32_t>(word)));
    }
  }
  return batch;
}

/// `words` of the root, as long on every rank.
void broadcast(const comm::Communicator& group, Words& words, int root) {
  const auto bytes = static_cast<std::int64_t>(words.size() * sizeof(words[0]));
  const comm::Buffer host(reinterpret_cast<std::byte*>(words.data()), bytes, {});  // only borrowed
  const comm::Buffer staging = group.device().allocate_values(bytes);
  comm::copy_slice(comm::whole(staging), comm::whole(host));
  comm::broadcast(group, comm::whole(staging), root);
  comm::copy_slice(comm::whole(host), comm::whole(staging));
  group.device().synchronize(group.deadline());
}

std::uint64_t digest(std::span<const Sample> batch) {
  std::uint64_t bits = 0;
  for (const std::int64_t word : to_words(batch)) {
    bits = random_bits(bits, static_cast<std::uint64_t>(word));
  }
  return bits;
}

/// The value that most have; of those that equally many have, the first.
std::uint64_t most_common(const std::vector<std::uint64_t>& values) {
  return *std::max_element(values.begin(), values.end(), [&](auto a, auto b) {
    return std::count(values.begin(), values.end(), a) <
           std::count(values.begin(), values.end(), b);
  });
}

}  // namespace

void require_valid(const Sample& sample) {
  const auto tokens = std::ssize(sample.ids);
  RINGSPAN_REQUIRE(tokens > 0, "sample: it has no tokens");
  attention::require_valid(attention::Sequence{tokens, sample.documents});
  const auto require_length = [&](std::string_view what, std::int64_t length) {
    RINGSPAN_REQUIRE(length == 0 || length == tokens, "sample: ", length, " ", what, " for ",
                     tokens, " tokens; there is one for each, or none at all");
  };
  require_length("targets", std::ssize(sample.targets));
  require_length("weights", std::ssize(sample.weights));
  for (const std::int64_t id : sample.ids) {
    RINGSPAN_REQUIRE(id >= 0, "sample: token id ", id, "; an id is not negative");
  }
  for (const std::int64_t target : sample.targets) {
    RINGSPAN_REQUIRE(target >= 0 || target == kIgnoredLabel, "sample: target ", target,
                     "; it is a token id, or ", kIgnoredLabel, " to be ignored");
  }
  for (const float weight : sample.weights) {
    RINGSPAN_REQUIRE(weight >= 0 && std::isfinite(weight), "sample: weight ", weight,
                     "; it is finite and not negative");
  }
}

attention::Sequence common_sequence(std::span<const Sample> batch, std::int64_t length) {
  RINGSPAN_REQUIRE(!batch.empty(), "batch: it has no samples");
  for (const Sample& sample : batch) {
    require_valid(sample);
    RINGSPAN_REQUIRE(
        sample.ids.size() == batch[0].ids.size() && sample.documents == batch[0].documents,
        "batch: a sample of ", sample.ids.size(), " tokens beside one of ", batch[0].ids.size(),
        ", or in other documents; those of a batch are cut alike: pack them as "
        "documents of one sample");
  }
  const auto tokens = std::ssize(batch[0].ids);
  RINGSPAN_REQUIRE(length == 0 || length >= tokens, "batch: a sample of ", tokens,
                   " tokens for a length of ", length, "; it must be cut");
  attention::Sequence sequence{std::max<std::int64_t>(length, tokens), batch[0].documents};
  if (sequence.length > tokens && sequence.documents.empty()) sequence.documents = {tokens};
  return sequence;
}

std::vector<Sample> share(const comm::Communicator& group, std::span<const Sample> own, int root) {
  Words words, length{0};
  if (group.rank() == root) {
    for (const Sample& sample : own) require_valid(sample);
    words = to_words(own);
    length = {std::ssize(words)};
  }
  broadcast(group, length, root);
  words.resize(length[0]);
  broadcast(group, words, root);
  return to_batch(words);
}

void require_same(const comm::Communicator& group, std::span<const Sample> batch) {
  const std::vector<std::uint64_t> digests = comm::all_gather_values(group, digest(batch));
  const std::uint64_t expected = most_common(digests);
  std::string odd;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (digests[rank] != expected) {
      odd += concat(odd.empty() ? "" : ", ", rank, " (", group.world_rank(rank), " in the world)");
    }
  }
  RINGSPAN_REQUIRE(odd.empty(), "samples: other ones on rank ", odd,
                   " than on the rest of its group; the ranks of a sequence work on the same: "
                   "give all the same, or share them");
}

}  // namespace ringspan::model
