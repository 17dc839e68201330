# SPDX-License-Identifier: Apache-2.0
# find_package(UCX): the target PkgConfig::UCX. UCX's own CMake files may be included once only.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(UCX QUIET IMPORTED_TARGET GLOBAL ucx>=1.12)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(UCX REQUIRED_VARS UCX_LINK_LIBRARIES VERSION_VAR UCX_VERSION
                                  REASON_FAILURE_MESSAGE "pkg-config finds no ucx of at least 1.12")
