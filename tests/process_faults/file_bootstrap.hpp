// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "comm/bootstrap.hpp"

namespace ringspan::comm::test {

/// The all-gather of a launcher that has nothing but a folder that all processes see.
Bootstrap file_bootstrap(const std::filesystem::path& folder, int rank, int size);

}  // namespace ringspan::comm::test
