# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, which defines VERSION and the commit of SOURCE; leaves it alone if nothing changed.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=10
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE failed ERROR_QUIET)
if(failed OR NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "bench/commit.hpp"
const char* const ringspan::bench::kVersion = "@VERSION@";
const char* const ringspan::bench::kCommit = "@commit@";
]])
