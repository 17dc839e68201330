// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/pairwise.hpp"

#include <optional>
#include <random>

namespace ringspan::attention {
namespace {

/// One value of one axis.
struct Choice {
  int axis, value;
};

class PairwiseCover {
 public:
  PairwiseCover(const std::vector<int>& sizes, std::uint64_t seed) : sizes_(sizes), random_(seed) {
    int choices = 0;
    for (const int size : sizes) {
      first_.push_back(choices);
      choices += size;
    }
    missing_.assign(choices, std::vector<bool>(choices));
    for_each_pair([this](Choice a, Choice b) { missing_[id(a)][id(b)] = true; });
  }

  std::vector<std::vector<int>> run() {
    std::vector<std::vector<int>> rows;
    while (const auto pair = first_missing()) rows.push_back(row_with(pair->first, pair->second));
    return rows;
  }

 private:
  int axes() const { return static_cast<int>(sizes_.size()); }
  int id(Choice choice) const { return first_[choice.axis] + choice.value; }
  bool missing(Choice a, Choice b) const {
    return a.axis < b.axis ? missing_[id(a)][id(b)] : missing_[id(b)][id(a)];
  }

  template <typename Visit>
  void for_each_pair(const Visit& visit) const {
    for (int a = 0; a < axes(); ++a) {
      for (int b = a + 1; b < axes(); ++b) {
        for (int i = 0; i < sizes_[a]; ++i) {
          for (int j = 0; j < sizes_[b]; ++j) visit(Choice{a, i}, Choice{b, j});
        }
      }
    }
  }

  std::optional<std::pair<Choice, Choice>> first_missing() const {
    std::optional<std::pair<Choice, Choice>> found;
    for_each_pair([&](Choice a, Choice b) {
      if (!found && missing(a, b)) found = {a, b};
    });
    return found;
  }

  /// Fills the other axes one by one, each with a value that covers most.
  std::vector<int> row_with(Choice a, Choice b) {
    std::vector<Choice> row{a, b};
    for (int axis = 0; axis < axes(); ++axis) {
      if (axis != a.axis && axis != b.axis) row.push_back(best_choice(axis, row));
    }
    std::vector<int> values(axes());
    for (const Choice& choice : row) values[choice.axis] = choice.value;
    for (int i = 0; i < axes(); ++i) {
      for (int j = i + 1; j < axes(); ++j) {
        missing_[id({i, values[i]})][id({j, values[j]})] = false;
      }
    }
    return values;
  }

  Choice best_choice(int axis, const std::vector<Choice>& row) {
    Choice best{axis, 0};
    int best_gain = -1;
    const int start = static_cast<int>(random_() % sizes_[axis]);
    for (int i = 0; i < sizes_[axis]; ++i) {
      const Choice choice{axis, (start + i) % sizes_[axis]};
      int gain = 0;
      for (const Choice& other : row) gain += missing(choice, other);
      if (gain > best_gain) best = choice, best_gain = gain;
    }
    return best;
  }

  const std::vector<int>& sizes_;
  std::mt19937_64 random_;
  std::vector<int> first_;                  // id of the first choice of each axis
  std::vector<std::vector<bool>> missing_;  // [id][id of a later axis]
};

}  // namespace

std::vector<std::vector<int>> pairwise_cover(const std::vector<int>& axis_sizes,
                                             std::uint64_t seed) {
  return PairwiseCover(axis_sizes, seed).run();
}

}  // namespace ringspan::attention
