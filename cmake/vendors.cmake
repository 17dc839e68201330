# SPDX-License-Identifier: Apache-2.0
# Libraries that comm can do without: RINGSPAN_WITH_<NAME> is AUTO (if it is found), ON or OFF; RINGSPAN_<NAME>
# says whether it is used.
function(ringspan_vendor name)
  set(RINGSPAN_WITH_${name} AUTO CACHE STRING "Use ${name}: AUTO, ON or OFF")
  set_property(CACHE RINGSPAN_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
  set(use FALSE)
  if(RINGSPAN_WITH_${name} STREQUAL "AUTO")
    find_package(${ARGN} QUIET GLOBAL)
    set(use ${${ARGV1}_FOUND})
  elseif(RINGSPAN_WITH_${name})
    find_package(${ARGN} REQUIRED GLOBAL)
    set(use TRUE)
  endif()
  set(RINGSPAN_${name} ${use} PARENT_SCOPE)
endfunction()

ringspan_vendor(MPI MPI COMPONENTS CXX)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})  # FindUCX, Findhwloc, FindSimGrid
ringspan_vendor(UCX UCX)
ringspan_vendor(HWLOC hwloc)
ringspan_vendor(SIMGRID SimGrid)
message(STATUS "ringspan: MPI ${RINGSPAN_MPI}, UCX ${RINGSPAN_UCX}, hwloc ${RINGSPAN_HWLOC}, "
               "SimGrid ${RINGSPAN_SIMGRID}")
