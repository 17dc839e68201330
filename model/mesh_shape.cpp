// SPDX-License-Identifier: Apache-2.0
#include "model/mesh_shape.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <vector>

#include "comm/error.hpp"

namespace ringspan::model {
namespace {

constexpr std::string_view kExpected =
    "axes are tensor, ulysses, ring, data (or replicate and shard) and pipeline, as in "
    "tensor=2,ring=2,data=2x4";

int degree(std::string_view axis, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  RINGSPAN_REQUIRE(error == std::errc{} && end == text.data() + text.size() && value >= 1,
                   axis, " is '", text, "'; a degree is a whole number of at least 1");
  return value;
}

/// The text up to `separator`, which is removed from `text` with it.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

MeshShape nearest(MeshShape shape, int ranks) {
  int left = ranks;
  for (const MeshAxis& axis : kMeshAxes) {
    int& degree = shape.*axis.degree;
    degree = std::clamp(degree, 1, left);
    while (left % degree != 0) --degree;
    left /= degree;
  }
  shape.replicate *= left;
  return shape;
}

}  // namespace

MeshShape parse_mesh(std::string_view text) {
  MeshShape shape;
  std::set<std::string_view> seen;
  const auto assign = [&](std::string_view name, std::string_view value) {
    const auto* axis = std::find_if(kMeshAxes.begin(), kMeshAxes.end(),
                                    [&](const MeshAxis& known) { return known.name == name; });
    RINGSPAN_REQUIRE(axis != kMeshAxes.end(), "unknown axis '", name, "'; ", kExpected);
    RINGSPAN_REQUIRE(seen.insert(axis->name).second, name, " is given twice");
    shape.*axis->degree = degree(name, value);
  };
  for (bool more = true; more;) {
    more = text.find(',') != text.npos;
    std::string_view value = take(text, ',');
    const std::string_view name = take(value, '=');
    if (name != "data") {
      assign(name, value);
      continue;
    }
    const bool sharded = value.find('x') != value.npos;
    assign("replicate", take(value, 'x'));
    assign("shard", sharded ? value : "1");
  }
  return shape;
}

std::int64_t product(const MeshShape& shape) {
  std::int64_t ranks = 1;
  for (const MeshAxis& axis : kMeshAxes) {
    if (__builtin_mul_overflow(ranks, shape.*axis.degree, &ranks)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return ranks;
}

std::string name(const MeshShape& shape) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : kMeshAxes) {
    if (shape.*axis.degree != 1) axes.push_back(concat(axis.name, "=", shape.*axis.degree));
  }
  if (axes.empty()) return "tensor=1";
  std::string text = axes.front();
  for (auto axis = axes.begin() + 1; axis != axes.end(); ++axis) text += "," + *axis;
  return text;
}

void require_ranks(const MeshShape& shape, int ranks) {
  for (const MeshAxis& axis : kMeshAxes) {
    RINGSPAN_REQUIRE(shape.*axis.degree >= 1, "mesh: ", axis.name, " is ", shape.*axis.degree,
                     "; a degree is at least 1");
  }
  const std::int64_t needed = product(shape);
  RINGSPAN_REQUIRE(needed == ranks, "mesh: ", name(shape), " is for ", needed,
                   " ranks, the product of its axes, which must equal the world's ", ranks,
                   "; nearest is ", name(nearest(shape, ranks)));
}

void require_trainable(const MeshShape& shape) {
  RINGSPAN_REQUIRE(
      shape.pipeline == 1, "mesh: pipeline is ", shape.pipeline,
      ", but in training every rank has all layers; it must be 1, with data=",
      product({.shard = shape.shard, .replicate = shape.replicate, .pipeline = shape.pipeline}),
      " for the same ranks");
}

}  // namespace ringspan::model
