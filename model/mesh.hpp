// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "model/mesh_shape.hpp"

namespace ringspan::model {

/// Where a rank stands on each axis, from 0.
struct MeshPosition {
  int tensor = 0;
  int sequence = 0;  // in the order of world ranks; made of the two below
  int ulysses = 0, ring = 0;
  int shard = 0, replicate = 0;
  int pipeline = 0;

  friend bool operator==(const MeshPosition&, const MeshPosition&) = default;
};

/// [world rank]. Ranks count up from the lowest axis. Within a sequence, ulysses and ring positions
/// are those of the schedule `usp`, which keeps its inner dimension within nodes whatever the order
/// of the ranks on them; where that order is plain, they count up like the others. Throws
/// invalid_argument unless the shape is for so many ranks.
std::vector<MeshPosition> mesh_positions(const MeshShape& shape,
                                         std::span<const comm::Place> places);

/// This rank's groups: what is known of who works with whom, and the only source of it. Each group
/// is in the order of world ranks, but ulysses() and ring(), which are in the order of positions.
class Mesh {
 public:
  /// Collective over the world. Throws invalid_argument unless the shape is for so many ranks.
  Mesh(const comm::Communicator& world, const MeshShape& shape);

  const MeshShape& shape() const { return shape_; }
  const MeshPosition& position() const { return position_; }

  const comm::Communicator& world() const { return world_; }
  const comm::Communicator& tensor() const { return tensor_; }
  const comm::Communicator& ulysses() const { return ulysses_; }
  const comm::Communicator& ring() const { return ring_; }

  /// ulysses x ring: those among whom tokens are cut, and what schedules are made over: "usp" with
  /// schedule_options() makes its groups from it exactly as ulysses() and ring() are.
  const comm::Communicator& sequence() const { return sequence_; }

  /// tensor x sequence: those who see the same samples.
  const comm::Communicator& samples() const { return samples_; }

  /// shard x replicate: those who see different samples; and the two dimensions of it.
  const comm::Communicator& data() const { return data_; }
  const comm::Communicator& shard() const { return shard_; }
  const comm::Communicator& replicate() const { return replicate_; }

  /// data x sequence: those with the same parameters, over whom their gradients are summed.
  const comm::Communicator& gradient() const { return gradient_; }

  /// For the schedule "usp" over sequence().
  attention::ScheduleOptions schedule_options() const {
    return {.ulysses_degree = shape_.ulysses, .placement = shape_.placement};
  }

 private:
  Mesh(const comm::Communicator& world, const MeshShape& shape,
       const std::vector<MeshPosition>& positions);

  MeshShape shape_;
  MeshPosition position_;
  comm::Communicator world_;
  comm::Communicator tensor_, ulysses_, ring_, sequence_, samples_;
  comm::Communicator data_, shard_, replicate_, gradient_;
};

}  // namespace ringspan::model
