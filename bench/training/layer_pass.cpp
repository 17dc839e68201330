// SPDX-License-Identifier: Apache-2.0
#include "bench/training/layer_pass.hpp"

#include <algorithm>
#include <vector>

#include "bench/training/matrix_product.hpp"

namespace ringspan::bench {
namespace {

/// The products of a layer whose columns tensor parallelism splits, and those whose rows.
std::vector<Product> column_parallel(const Model& model, const TrainingConfig& config) {
  const std::int64_t heads = model.heads / config.tensor + 2 * kv_heads_per_rank(model, config);
  const std::int64_t mlp = (model.gated ? 2 : 1) * model.ffn_hidden / config.tensor;
  return {{config.tokens(), heads * model.head_dim, model.hidden},
          {config.tokens(), mlp, model.hidden}};
}
std::vector<Product> row_parallel(const Model& model, const TrainingConfig& config) {
  const std::int64_t heads = model.heads / config.tensor;
  return {{config.tokens(), model.hidden, heads * model.head_dim},
          {config.tokens(), model.hidden, model.ffn_hidden / config.tensor}};
}

Product input_gradient(const Product& forward) {
  return {forward.rows, forward.depth, forward.columns};
}
Product weight_gradient(const Product& forward, const TrainingConfig& config) {
  return {forward.depth, forward.columns, forward.rows, 1, 2 * config.gradient_bytes};
}

/// Gathers, scatters and reduces the input of a layer's half.
class TensorGroup {
 public:
  TensorGroup(const Model& model, const comm::Cluster& cluster, const TrainingConfig& config)
      : gather_(gather_cost(cluster, {config.tensor, 1},
                            2.0 * static_cast<double>(config.tokens() * model.hidden))) {}

  /// So many all-gathers or reduce-scatters, with nothing to do beside them.
  void wait(int gathers, CollectiveCost& messages) const {
    messages.seconds += gathers * gather_.seconds;
    count(gathers, messages);
  }
  void run_beside(double kernel_seconds, int gathers, CollectiveCost& messages) const {
    const double moving = gathers * gather_.seconds;
    messages.seconds +=
        overlapped_seconds(kernel_seconds, moving, gather_.kernel_slowdown) - kernel_seconds;
    count(gathers, messages);
  }

 private:
  void count(int gathers, CollectiveCost& messages) const {
    messages.bytes_in_node += gathers * gather_.bytes_in_node;
    messages.bytes_between_nodes += gathers * gather_.bytes_between_nodes;
  }

  CollectiveCost gather_;
};

/// Bytes that kernels other than products read and write, as so many for each element of a residual
/// stream (norm, residual), of q and k (turned, or laid out anew), and of an MLP's hidden layer.
struct ElementBytes {
  std::int64_t residual, heads, gated_mlp, mlp;
};
// Norm twice: in, out; residual twice: both in, sum out. SwiGLU: both in, product out.
constexpr ElementBytes kForward = {2 * 4 + 2 * 6, 4, 6, 4};
// Norm: gradient and input in, gradient out; the same sum of residuals. SwiGLU: three in, two out.
constexpr ElementBytes kBackward = {2 * 6 + 2 * 6, 4, 10, 6};
constexpr std::int64_t kForwardDropout = 2 * 1;   // a mask is written with each residual
constexpr std::int64_t kBackwardDropout = 2 * 5;  // gradient and mask in, gradient out

double elementwise_seconds(const Model& model, const comm::Gpu& gpu, const TrainingConfig& config,
                           const ElementBytes& bytes, std::int64_t dropout_bytes) {
  const std::int64_t residual = bytes.residual + (config.dropout ? dropout_bytes : 0);
  const std::int64_t heads = model.heads / config.tensor + kv_heads_per_rank(model, config);
  const std::int64_t per_token =
      heads * model.head_dim * bytes.heads +
      model.ffn_hidden / config.tensor * (model.gated ? bytes.gated_mlp : bytes.mlp);
  const std::int64_t moved =
      residual_tokens(config) * model.hidden * residual + config.tokens() * per_token;
  return static_cast<double>(moved) / gpu.memory_bytes_per_second;
}

}  // namespace

std::int64_t kv_heads_per_rank(const Model& model, const TrainingConfig& config) {
  return std::max<std::int64_t>(model.kv_heads / config.tensor, 1);
}

std::int64_t residual_tokens(const TrainingConfig& config) {
  return config.tensor_sequence_parallel ? parts(config.tokens(), config.tensor) : config.tokens();
}

LayerPass layer_forward(const Model& model, const comm::Cluster& cluster,
                        const TrainingConfig& config) {
  LayerPass pass;
  for (const Product& product : column_parallel(model, config)) {
    pass.products += product_seconds(cluster.gpu, product);
  }
  for (const Product& product : row_parallel(model, config)) {
    pass.products += product_seconds(cluster.gpu, product);
  }
  pass.elementwise = elementwise_seconds(model, cluster.gpu, config, kForward, kForwardDropout);
  // For each half of the layer a gather and a reduce-scatter, or an all-reduce.
  TensorGroup(model, cluster, config).wait(4, pass.messages);
  return pass;
}

LayerPass layer_backward(const Model& model, const comm::Cluster& cluster,
                         const TrainingConfig& config) {
  LayerPass pass;
  const TensorGroup group(model, cluster, config);
  const bool split = config.tensor_sequence_parallel;
  for (const Product& product : row_parallel(model, config)) {
    if (split) group.wait(1, pass.messages);  // the gradient of the output is gathered
    pass.products += product_seconds(cluster.gpu, input_gradient(product)) +
                     product_seconds(cluster.gpu, weight_gradient(product, config));
  }
  for (const Product& product : column_parallel(model, config)) {
    const double inputs = product_seconds(cluster.gpu, input_gradient(product));
    const double weights = product_seconds(cluster.gpu, weight_gradient(product, config));
    pass.products += inputs + weights;
    if (split) group.run_beside(inputs, 1, pass.messages);    // the input is gathered again
    group.run_beside(weights, split ? 1 : 2, pass.messages);  // the input's gradient is reduced
  }
  pass.elementwise = elementwise_seconds(model, cluster.gpu, config, kBackward, kBackwardDropout);
  return pass;
}

LayerPass logits_pass(const Model& model, const comm::Cluster& cluster,
                      const TrainingConfig& config) {
  const std::int64_t vocabulary = parts(model.vocabulary, config.tensor);
  const Product logits{config.tokens(), vocabulary, model.hidden};
  LayerPass pass;
  pass.products = product_seconds(cluster.gpu, logits) +
                  product_seconds(cluster.gpu, input_gradient(logits)) +
                  product_seconds(cluster.gpu, weight_gradient(logits, config));
  // In 32 bits: widened (2 + 4), largest and sum (4 + 4), softmax (4 + 4), gradient narrowed (4 +
  // 2).
  constexpr std::int64_t kBytes = 28;
  pass.elementwise = static_cast<double>(config.tokens() * vocabulary * kBytes) /
                     cluster.gpu.memory_bytes_per_second;
  TensorGroup(model, cluster, config).wait(2, pass.messages);
  return pass;
}

}  // namespace ringspan::bench
