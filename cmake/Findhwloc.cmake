# SPDX-License-Identifier: Apache-2.0
# find_package(hwloc): the target PkgConfig::hwloc.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(hwloc QUIET IMPORTED_TARGET GLOBAL hwloc>=2)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(hwloc REQUIRED_VARS hwloc_LINK_LIBRARIES VERSION_VAR hwloc_VERSION
                                  REASON_FAILURE_MESSAGE "pkg-config finds no hwloc of at least 2")
