// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attention/token_layout.hpp"
#include "model/adamw.hpp"
#include "model/memory_options.hpp"
#include "model/mesh.hpp"
#include "model/model_config.hpp"
#include "model/tokens.hpp"
#include "model/transformer.hpp"

namespace ringspan::model::test {

/// What a model is trained on in a test: all samples of a global batch, random ids, whole. Some
/// labels are ignored and some tokens count double.
struct Text {
  Text(attention::Sequence sequence_, std::int64_t samples_, std::int64_t vocabulary,
       std::uint64_t seed);

  /// What a rank holds: `batch` samples from `first` on, of them the tokens of `shard`.
  Tokens tokens(const attention::Shard& shard, std::int64_t first, std::int64_t batch) const;

  attention::Sequence sequence;
  std::int64_t samples;
  Tokens whole;  // [samples][length]
};

/// How it is trained.
struct TrainingSetup {
  ModelConfig config;
  MemoryOptions memory = {};
  MeshShape mesh = {};
  std::string schedule = "ring";
  int steps = 0;  // of training; the gradient is that of the first step
  int inner_ring = 0;
  attention::BackwardForm backward = attention::BackwardForm::kv;
};

struct Outcome {
  double loss = 0;  // mean, of the first step
  std::int64_t count = 0;
  std::vector<double> gradients;  // of that mean, of all parameters, whole
  std::vector<double> losses;     // of every step of training
};

/// One rank's model, ready to be used.
struct RankModel {
  RankModel(const comm::Communicator& world, const TrainingSetup& setup, const Text& text);

  Mesh mesh;
  std::unique_ptr<attention::Kernels> kernels;
  std::unique_ptr<attention::Schedule> schedule;
  Transformer model;
  Tokens tokens;
};

/// This rank's parts of `matrix_of` all parameters, put together over the tensor group.
std::vector<double> whole(const Mesh& mesh, const Parameters& parameters, bool gradients);

/// On as many ranks as the mesh has; the same on each, which is checked.
Outcome train(const TrainingSetup& setup, const Text& text);

/// |a - b| / |b|, in the Euclidean norm.
double relative_distance(const std::vector<double>& a, const std::vector<double>& b);

/// Small, everything of another size.
ModelConfig tiny(Variant variant, attention::DType dtype);

}  // namespace ringspan::model::test
