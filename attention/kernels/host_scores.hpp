// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/score_kernels.hpp"
#include "comm/device.hpp"

namespace ringspan::attention {

/// On tensors in host memory, computed in Number. A panel of keys is widened once for all queries
/// that see it; inner loops run over keys or dimensions, so that compilers can vectorise them
/// without adding up in another order.
template <typename Number>
class HostScores final : public ScoreKernels {
 public:
  explicit HostScores(comm::Device& device) : device_(device) {}

  void prepare(const Shape& shape) override;
  std::int64_t workspace_bytes() const;

  void scores(const ForwardBlock& block, const TensorView& scores) override;
  void max_rows(const ConstTensorView& scores, const Partial& partial) override;
  void weigh(const ConstTensorView& scores, const ForwardBlock& block,
             const Partial& partial) override;
  void backward_values(const ConstTensorView& scores, const BackwardBlock& block,
                       const TensorView& dv, const TensorView& d_scores) override;
  void backward_keys(const ConstTensorView& d_scores, const BackwardBlock& block,
                     const TensorView& dq, const TensorView& dk) override;

 private:
  struct Panel;
  struct Row;
  template <typename Begin, typename Each>
  void for_each_row(const ConstTensorView& queries, std::int64_t kv_heads,
                    std::span<const Tile> tiles, const Begin& begin, const Each& each);
  void load_panel(const ConstTensorView& rows, const Panel& panel);
  void transpose_panel(std::int64_t dim, std::int64_t keys);
  void multiply(const Row& row, std::int64_t dim);
  void add_panel(const TensorView& to, const Panel& panel);

  comm::Device& device_;
  std::vector<Number> panel_;       // [key][dim]
  std::vector<Number> transposed_;  // [dim][key]
  std::vector<Number> sums_;        // [key][dim], of gradients
  std::vector<Number> query_;       // [dim], or a row of the output
  std::vector<Number> products_;    // [key]
  std::vector<Number> weights_;     // [key]
};

extern template class HostScores<float>;
extern template class HostScores<double>;

}  // namespace ringspan::attention
