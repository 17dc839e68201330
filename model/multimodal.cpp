// SPDX-License-Identifier: Apache-2.0
#include "model/multimodal.hpp"

#include <algorithm>

#include "comm/error.hpp"
#include "model/loss.hpp"

namespace ringspan::model {
namespace {

void require_in_order(std::span<const Part> images) {
  std::int64_t end = 0;
  for (const Part& image : images) {
    RINGSPAN_REQUIRE(image.count >= 0 && image.first >= end, "images: tokens ", image.first, " to ",
                     image.first + image.count,
                     " of one; images are in the order of their tokens and share none");
    end = image.first + image.count;
  }
}

/// [image]: its first row of all features; and how many there are.
std::vector<std::int64_t> first_rows(std::span<const Part> images) {
  std::vector<std::int64_t> rows{0};
  for (const Part& image : images) rows.push_back(rows.back() + image.count);
  return rows;
}

}  // namespace

std::vector<EncoderShare> encoder_shares(std::span<const Part> images, int ranks) {
  require_in_order(images);
  RINGSPAN_REQUIRE(ranks >= 1, "images: ", ranks, " ranks encode them; it takes at least 1");
  const std::vector<std::int64_t> rows = first_rows(images);
  std::vector<EncoderShare> shares;
  for (int rank = 0; rank < ranks; ++rank) {
    const Part own = split_evenly(std::ssize(images), ranks, rank);
    const std::int64_t first = rows[own.first];
    shares.push_back({own, {first, rows[own.first + own.count] - first}});
  }
  return shares;
}

std::vector<std::int64_t> feature_rows(std::span<const Part> images,
                                       const attention::Shard& shard) {
  require_in_order(images);
  const std::vector<std::int64_t> first = first_rows(images);
  std::vector<std::int64_t> rows;
  for (const std::int64_t place : attention::positions(shard)) {
    // The first image that ends behind this token; empty ones have none.
    const auto behind = std::upper_bound(
        images.begin(), images.end(), place,
        [](std::int64_t token, const Part& image) { return token < image.first + image.count; });
    const bool in_image = behind != images.end() && place >= behind->first;
    rows.push_back(in_image ? first[behind - images.begin()] + place - behind->first : -1);
  }
  return rows;
}

std::vector<std::int64_t> text_targets(std::span<const Part> images,
                                       std::vector<std::int64_t> targets) {
  require_in_order(images);
  for (const Part& image : images) {
    RINGSPAN_REQUIRE(image.first + image.count <= std::ssize(targets), "images: one reaches token ",
                     image.first + image.count, " of ", targets.size());
    std::fill_n(targets.begin() + image.first, image.count, kIgnoredLabel);
  }
  return targets;
}

}  // namespace ringspan::model
