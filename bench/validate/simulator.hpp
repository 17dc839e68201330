// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/ask/point.hpp"
#include "bench/run/measure.hpp"
#include "comm/cluster.hpp"

namespace ringspan::bench {

/// A figure that is not predicted and says how fast kernels are.
struct Anchor {
  std::string row;  // as Figure::row
  Point point;
  double published_seconds = 0;
};

/// How fast the attention kernels of one kind are: so that its anchors are met on average.
struct Calibration {
  std::string name;  // "8 heads of 32, forward"
  std::vector<Anchor> anchors;
};

/// Where predictions come from: points in virtual time, each simulated once.
class Simulator {
 public:
  enum class Model {
    described,  // clusters as their files describe them
    naive,      // GPUs at the peak of their links, one hop apart, whose messages slow nothing down;
                // merging, packing and launching are free
  };
  explicit Simulator(Model model);
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  ~Simulator();

  Model model() const { return model_; }

  /// A cluster that comes with the program, or a file, as this model has it.
  comm::Cluster cluster(const std::string& name) const;

  /// Kernels run `attention_speed` times as fast as published curves say. What Point leaves to the
  /// sweep (ranks_per_node, ring_degree, ...) is filled in as the sweep does. Throws what refuses
  /// the point.
  const Measurement& measure(const Point& point, double attention_speed = 1);

  /// Of the whole pass, communication included.
  double seconds(const Point& point, double attention_speed = 1);

  /// Relative to published curves, in this model; 1 without anchors. Throws invalid_argument if no
  /// speed meets them.
  double attention_speed(const Calibration& calibration);

 private:
  Model model_;
  std::string folder_;  // of cluster files as this model has them
  std::map<std::pair<Point, double>, Measurement> measured_;
  std::map<std::string, double> speeds_;  // by calibration
};

}  // namespace ringspan::bench
