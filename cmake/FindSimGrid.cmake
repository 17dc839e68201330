# SPDX-License-Identifier: Apache-2.0
# find_package(SimGrid): the target PkgConfig::SimGrid. Its header of timers needs Boost.Heap. Interfaces below its
# public ones change between versions, so it is the one that this was written for.
find_package(PkgConfig QUIET)
find_package(Boost QUIET)
if(PkgConfig_FOUND AND Boost_FOUND)
  pkg_check_modules(SimGrid QUIET IMPORTED_TARGET GLOBAL simgrid=3.32)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SimGrid REQUIRED_VARS SimGrid_LINK_LIBRARIES Boost_FOUND VERSION_VAR SimGrid_VERSION
                                  REASON_FAILURE_MESSAGE "pkg-config finds no simgrid of version 3.32, or Boost is missing")
