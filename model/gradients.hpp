// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/loss.hpp"
#include "model/mesh.hpp"
#include "model/parameters.hpp"

namespace ringspan::model {

/// The one place where gradients cross ranks. Before: each parameter's gradient is the sum over the
/// tokens that this rank computed with it. After: the gradient of the mean loss, on every rank: the
/// sum over mesh.gradient() (data x sequence) and, for what a tensor group has whole, over
/// mesh.tensor(), whose ranks have a piece of the tokens each; divided, once, by the labels of the
/// whole batch. `total` is the loss of all ranks. Ranks that share a parameter end with the same
/// bits. Collective over the mesh.
void reduce_gradients(const Mesh& mesh, const LossSum& total, Parameters& parameters);

/// Collective: throws if ranks that ought to have the same parameters differ in any bit, naming
/// the rank.
void require_equal_parameters(const Mesh& mesh, const Parameters& parameters);

}  // namespace ringspan::model
