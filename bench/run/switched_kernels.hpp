// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "attention/kernels.hpp"
#include "bench/run/run_mode.hpp"
#include "bench/run/step_clock.hpp"
#include "comm/device.hpp"

namespace ringspan::bench {

/// Told of each kernel when it has been called: seconds of Device::now().
using KernelWatch = std::function<void(std::string_view kernel, double start, double end)>;

/// `full` while mode.kernels is set, else `null`, which moves data and computes no attention;
/// `clock` is told how long each call took, less the time it spent polling for messages; of
/// modelled kernels, how long they will. The references outlive it.
std::unique_ptr<attention::Kernels> make_switched_kernels(std::unique_ptr<attention::Kernels> full,
                                                          std::unique_ptr<attention::Kernels> null,
                                                          comm::Device& device, const RunMode& mode,
                                                          StepClock& clock, KernelWatch watch = {});

}  // namespace ringspan::bench
