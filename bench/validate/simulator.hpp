// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/ask/point.hpp"
#include "bench/run/measure.hpp"
#include "bench/validate/published_row.hpp"
#include "comm/cluster.hpp"

namespace ringspan::bench {

/// A figure that is not predicted and says how fast kernels are.
struct Anchor {
  FigureName name;
  std::vector<Point> points;
  double published_seconds = 0;  // mean over the points
  bool bare = false;  // one library call on one GPU, without what a schedule does around it
  int messages_per_hop = 1;
};

/// How fast the attention kernels of one kind are: so that the anchors are met on average.
struct Calibration {
  std::string name;  // "8 heads of 32, forward"; unique in its table
  std::vector<Anchor> anchors;
};

/// Where predictions come from: points in virtual time, each simulated once.
class Simulator {
 public:
  enum class Model {
    described,  // clusters as their files describe them
    naive,      // GPUs one hop apart, at the peak of their links, whose messages slow nothing down;
                // merging, packing and launching are free
  };
  explicit Simulator(Model model) : model_(model) {}

  Model model() const { return model_; }

  /// A cluster that comes with the program, or a file, as this model has it; read once.
  const comm::Cluster& cluster(const std::string& name);

  /// Kernels run `attention_speed` times as fast as published curves and the cluster's own
  /// attention_speed say. What a point leaves open is filled in as for a sweep. Where others send K
  /// and V as two messages, each gets channels by its own size. Throws what refuses the point.
  const Measurement& measure(const Point& point, double attention_speed = 1,
                             int messages_per_hop = 1) {
    return measure(point, {attention_speed, messages_per_hop, false});
  }

  /// Of the whole pass, communication included.
  double seconds(const Point& point, double attention_speed = 1, int messages_per_hop = 1) {
    return measure(point, attention_speed, messages_per_hop).times.overlapped[0];
  }

  /// Of one of an anchor's points on average.
  double seconds(const Anchor& anchor, double attention_speed);

  /// The speed that meets the anchors in this model; 1 without anchors. Throws invalid_argument if
  /// none does.
  double attention_speed(const Calibration& calibration);

 private:
  struct Change {  // of a cluster
    double attention_speed;
    int messages_per_hop;
    bool bare;
    auto operator<=>(const Change&) const = default;
  };
  const Measurement& measure(const Point& point, const Change& change);
  double slowness(const Calibration& calibration, double attention_speed);

  Model model_;
  std::map<std::string, comm::Cluster> clusters_;  // by name
  std::map<std::pair<Point, Change>, Measurement> measured_;
};

}  // namespace ringspan::bench
