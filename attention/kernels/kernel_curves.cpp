// SPDX-License-Identifier: Apache-2.0
// The only place with published kernel speeds. Where they come from:
//   FA3 paper   arXiv 2407.08608, figures 5 to 7: 16Ki tokens in all, hidden size 2048, H100
//   FA2 paper   arXiv 2307.08691, figure 4: the same on A100, forward and backward together
//   Magi        the kernel plots of MagiAttention: batch 1, 64 query and 8 KV heads, H100 and B200
// Fits are least squares of relative errors over the published points, those below a floor left
// out: short calls cost what their host takes to launch them, which the device counts by itself.
#include "attention/kernels/kernel_curves.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "attention/kernels.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

using enum KernelLibrary;
using enum KernelPass;

constexpr double kTera = 1e12;
constexpr RateFit fit(double teraflops, double half_keys) { return {teraflops * kTera, half_keys}; }

// FA2 starts the thread blocks of forward passes in order of rows (its grid's x), so that the
// longest of a causal mask end last. With that counted, two on a multiprocessor at head_dim 64 and
// one at 128, what is published under a causal mask follows from what is published without one and
// 120 keys a cut row, to 1 % and 3: there is no causal speed. All others' tails are in their fits.
//
// FA2 on A100 is published for both passes together, and cut here as a single GPU cuts it in the
// README of ring-flash-attention: forward 1.178 times as fast; half_keys forward as on H100;
// backward takes what is left. L20 has no published curve: its peak of 119.5 TFLOP/s at A100's
// share of 312.
constexpr std::string_view kCut = "FA2 paper, cut into passes by a single-GPU row";
constexpr std::string_view kShare = "assumed: A100's share of the peak";
constexpr double kL20 = 119.5 / 312;

constexpr KernelCurve kCurves[] = {
    {"a100", fa2, forward, 64, fit(200.6, 78), fit(200.6, 396), 128, false, 2, kCut},
    {"a100", fa2, backward, 64, fit(170.3, 207), fit(169.3, 528), 128, false, 0, kCut},
    {"a100", fa2, forward, 128, fit(231.1, 105), fit(231.1, 450), 128, false, 1, kCut},
    {"a100", fa2, backward, 128, fit(196.2, 212), fit(184.9, 492), 128, false, 0, kCut},

    {"h100", fa2, forward, 64, fit(327, 78), fit(327, 396), 128, false, 2, "FA3 paper"},
    {"h100", fa2, backward, 64, fit(292, 246), fit(287, 615), 128, false, 0, "FA2 and FA3 papers"},
    {"h100", fa2, forward, 128, fit(376, 75), fit(376, 390), 128, false, 1, "Magi"},
    {"h100", fa2, backward, 128, fit(340, 450), fit(348, 1325), 128, false, 0, "Magi"},
    {"h100", fa3, forward, 64, fit(511, 280), fit(503, 825), 128, true, 0, "FA3 paper"},
    {"h100", fa3, forward, 128, fit(690, 75), fit(688, 325), 128, true, 0, "Magi"},
    {"h100", fa3, forward, 256, fit(784, 310), fit(693, 685), 128, true, 0, "FA3 paper"},
    {"h100", fa3, backward, 128, fit(610, 725), fit(615, 1475), 128, false, 0, "Magi"},
    {"h100", cudnn, forward, 64, fit(418, 125), fit(397, 390), 128, false, 0, "FA3 paper"},
    {"h100", cudnn, forward, 128, fit(590, 350), fit(603, 1250), 128, false, 0, "Magi"},
    {"h100", cudnn, forward, 256, fit(598, 125), fit(522, 351), 128, false, 0, "FA3 paper"},
    {"h100", cudnn, backward, 128, fit(498, 625), fit(519, 1875), 128, false, 0, "Magi"},

    {"b200", fa4, forward, 128, fit(1330, 0), fit(1398, 175), 256, true, 0, "Magi"},
    {"b200", fa4, backward, 128, fit(1217, 1696), fit(1280, 3974), 128, false, 0, "Magi"},
    {"b200", cudnn, forward, 128, fit(1333, 150), fit(1393, 2025), 128, false, 0, "Magi"},
    {"b200", cudnn, backward, 128, fit(923, 850), fit(834, 2875), 128, false, 0, "Magi"},

    {"l20", fa2, forward, 64, fit(200.6 * kL20, 78), fit(200.6 * kL20, 396), 128, false, 2, kShare},
    {"l20", fa2, backward, 64, fit(170.3 * kL20, 207), fit(169.3 * kL20, 528), 128, false, 0,
     kShare},
    {"l20", fa2, forward, 128, fit(231.1 * kL20, 105), fit(231.1 * kL20, 450), 128, false, 1,
     kShare},
    {"l20", fa2, backward, 128, fit(196.2 * kL20, 212), fit(184.9 * kL20, 492), 128, false, 0,
     kShare},
};

/// GPUs that differ in links and memory, and not in what computes.
struct Kind {
  std::string_view name, curves;
  KernelLibrary usual;
};
constexpr Kind kKinds[] = {
    {"a100", "a100", fa2}, {"a800", "a100", fa2}, {"h100", "h100", fa3}, {"h800", "h100", fa3},
    {"h200", "h100", fa3}, {"b200", "b200", fa4}, {"l20", "l20", fa2},
};

const Kind& kind(std::string_view name) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [name](const Kind& kind) { return kind.name == name; });
  RINGSPAN_REQUIRE(found != std::end(kKinds), "no speed of attention is known for a GPU of kind '",
                   name, "'; known are ", name_list(kKinds, &Kind::name));
  return *found;
}

std::string libraries_of(std::string_view gpu) {
  std::string names;
  for (const KernelLibrary library : {fa2, fa3, fa4, cudnn}) {
    const bool known = std::any_of(std::begin(kCurves), std::end(kCurves), [&](const auto& curve) {
      return curve.gpu == gpu && curve.library == library;
    });
    if (known) names += concat(names.empty() ? "" : ", ", name(library));
  }
  return names;
}

}  // namespace

std::string_view name(KernelLibrary library) {
  constexpr std::string_view kNames[] = {"fa2", "fa3", "fa4", "cudnn"};
  return kNames[static_cast<int>(library)];
}

std::span<const KernelCurve> kernel_curves() { return kCurves; }

const KernelCurve& kernel_curve(std::string_view gpu_kind, KernelLibrary library, KernelPass pass,
                                double head_dim) {
  const std::string_view gpu = kind(gpu_kind).curves;
  const auto distance = [head_dim](const KernelCurve& curve) {
    return std::abs(std::log(head_dim / static_cast<double>(curve.head_dim)));
  };
  const KernelCurve* nearest = nullptr;
  for (const KernelCurve& curve : kCurves) {
    if (curve.gpu != gpu || curve.library != library || curve.pass != pass) continue;
    if (!nearest || distance(curve) < distance(*nearest)) nearest = &curve;
  }
  RINGSPAN_REQUIRE(nearest, "no speed of ", name(library), " is known on ", gpu_kind,
                   "; known there are ", libraries_of(gpu));
  return *nearest;
}

KernelLibrary usual_library(std::string_view gpu_kind) { return kind(gpu_kind).usual; }

double causal_share_of_speed(std::string_view gpu_kind, bool backward, std::int64_t head_dim) {
  const KernelCurve& curve = kernel_curve(gpu_kind, usual_library(gpu_kind),
                                          backward ? KernelPass::backward : KernelPass::forward,
                                          static_cast<double>(head_dim));
  return curve.causal.flops_per_second / curve.full.flops_per_second;
}

}  // namespace ringspan::attention
