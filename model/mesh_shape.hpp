// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "attention/schedule.hpp"

namespace ringspan::model {

/// How the ranks of a world are divided among the ways to work side by side. From low to high
/// (neighbouring ranks first): tensor, ulysses, ring, data, pipeline; with ring_inner the ring
/// comes before ulysses. Data parallelism is shard x replicate, the shards of one replica being
/// closer.
struct MeshShape {
  int tensor = 1;
  int ulysses = 1, ring = 1;
  int shard = 1, replicate = 1;
  int pipeline = 1;
  attention::Placement placement = attention::Placement::ulysses_inner;

  // Of a shape whose product() is a number of ranks.
  int sequence() const { return ulysses * ring; }
  int data() const { return shard * replicate; }

  friend bool operator==(const MeshShape&, const MeshShape&) = default;
};

/// An axis by its name; low ones first.
struct MeshAxis {
  std::string_view name;
  int MeshShape::*degree;
};
inline constexpr std::array kMeshAxes{
    MeshAxis{"tensor", &MeshShape::tensor},       MeshAxis{"ulysses", &MeshShape::ulysses},
    MeshAxis{"ring", &MeshShape::ring},           MeshAxis{"shard", &MeshShape::shard},
    MeshAxis{"replicate", &MeshShape::replicate}, MeshAxis{"pipeline", &MeshShape::pipeline},
};

/// "tensor=2,ring=2,data=4": axes left out are 1; data=4 is replicate=4, and data=2x4 is
/// replicate=2,shard=4. Throws invalid_argument, listing the axes.
MeshShape parse_mesh(std::string_view text);

/// Of all degrees; saturates where it leaves 64 bits.
std::int64_t product(const MeshShape& shape);

/// In the form that parse_mesh() reads; "tensor=1" where every axis is 1.
std::string name(const MeshShape& shape);

/// Throws invalid_argument unless every degree is at least 1 and the product of all is `ranks`; the
/// message says which mesh of so many ranks is nearest: axes keep what they can, the low ones
/// first, and ranks that are left replicate.
void require_ranks(const MeshShape& shape, int ranks);

/// Throws invalid_argument for what training does not do: a pipeline.
void require_trainable(const MeshShape& shape);

}  // namespace ringspan::model
