// SPDX-License-Identifier: Apache-2.0
#include "model/mesh.hpp"

#include <algorithm>
#include <initializer_list>

#include "attention/schedules/usp_position.hpp"

namespace ringspan::model {
namespace {

using Positions = std::vector<MeshPosition>;
using Coordinate = int MeshPosition::*;

std::vector<comm::Place> places(const comm::Communicator& world) {
  std::vector<comm::Place> places;
  for (int rank = 0; rank < world.size(); ++rank) places.push_back(world.place(rank));
  return places;
}

/// Ranks that agree on these coordinates.
comm::Communicator group(const comm::Communicator& world, const Positions& positions,
                         std::initializer_list<Coordinate> fixed, Coordinate order = nullptr) {
  const MeshPosition& own = positions[world.rank()];
  const auto first = std::find_if(positions.begin(), positions.end(), [&](const auto& other) {
    return std::all_of(fixed.begin(), fixed.end(),
                       [&](Coordinate axis) { return other.*axis == own.*axis; });
  });
  const auto color = static_cast<int>(first - positions.begin());
  return world.split(color, order ? own.*order : world.rank());
}

/// Fills in the ulysses and ring positions of the sequence that begins with world rank `first`.
void place_sequence(const MeshShape& shape, int first, std::span<const comm::Place> places,
                    Positions& positions) {
  std::vector<comm::Place> own;
  for (int s = 0; s < shape.sequence(); ++s) own.push_back(places[first + s * shape.tensor]);
  const auto usp = attention::usp_positions(shape.ulysses, shape.placement, own);
  for (int s = 0; s < shape.sequence(); ++s) {
    positions[first + s * shape.tensor].ulysses = usp[s].ulysses_rank;
    positions[first + s * shape.tensor].ring = usp[s].ring_rank;
  }
}

}  // namespace

std::vector<MeshPosition> mesh_positions(const MeshShape& shape,
                                         std::span<const comm::Place> places) {
  require_ranks(shape, static_cast<int>(places.size()));
  Positions positions(places.size());
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    auto left = static_cast<int>(rank);
    const auto digit = [&](int degree) {
      const int value = left % degree;
      left /= degree;
      return value;
    };
    MeshPosition& position = positions[rank];
    position.tensor = digit(shape.tensor);
    position.sequence = digit(shape.sequence());
    position.shard = digit(shape.shard);
    position.replicate = digit(shape.replicate);
    position.pipeline = digit(shape.pipeline);
  }
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (positions[rank].sequence == 0) {
      place_sequence(shape, static_cast<int>(rank), places, positions);
    }
  }
  return positions;
}

Mesh::Mesh(const comm::Communicator& world, const MeshShape& shape)
    : Mesh(world, shape, mesh_positions(shape, places(world))) {}

Mesh::Mesh(const comm::Communicator& world, const MeshShape& shape, const Positions& positions)
    : shape_(shape),
      position_(positions[world.rank()]),
      world_(world),
      tensor_(group(world, positions,
                    {&MeshPosition::sequence, &MeshPosition::shard, &MeshPosition::replicate,
                     &MeshPosition::pipeline})),
      ulysses_(group(world, positions,
                     {&MeshPosition::tensor, &MeshPosition::ring, &MeshPosition::shard,
                      &MeshPosition::replicate, &MeshPosition::pipeline},
                     &MeshPosition::ulysses)),
      ring_(group(world, positions,
                  {&MeshPosition::tensor, &MeshPosition::ulysses, &MeshPosition::shard,
                   &MeshPosition::replicate, &MeshPosition::pipeline},
                  &MeshPosition::ring)),
      sequence_(group(world, positions,
                      {&MeshPosition::tensor, &MeshPosition::shard, &MeshPosition::replicate,
                       &MeshPosition::pipeline})),
      samples_(group(world, positions,
                     {&MeshPosition::shard, &MeshPosition::replicate, &MeshPosition::pipeline})),
      data_(group(world, positions,
                  {&MeshPosition::tensor, &MeshPosition::sequence, &MeshPosition::pipeline})),
      shard_(group(world, positions,
                   {&MeshPosition::tensor, &MeshPosition::sequence, &MeshPosition::replicate,
                    &MeshPosition::pipeline})),
      replicate_(group(world, positions,
                       {&MeshPosition::tensor, &MeshPosition::sequence, &MeshPosition::shard,
                        &MeshPosition::pipeline})),
      gradient_(group(world, positions, {&MeshPosition::tensor, &MeshPosition::pipeline})) {}

}  // namespace ringspan::model
