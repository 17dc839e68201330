# SPDX-License-Identifier: Apache-2.0
# A worker of UCX maps 512 buffers of 8 KiB for each network of shared memory: to make them takes half the time
# of tests with a launch each.
set(ringspan_few_ucx_buffers UCX_POSIX_RX_BUFS_GROW=64 UCX_SYSV_RX_BUFS_GROW=64)

# ringspan_process_tests(<name> TESTS <layer>/<name>... [NUMBERS number...] [mpi number...]
#                        [ucx_sm number...] [ucx_tcp number...] [LABELS ...] [TIMEOUT seconds]
#                        [ALONE] [FAULTS transport:number...]):
# adds an entry such as comm@mpi:5, of tests of one layer that run ON_ANY_TRANSPORT, for each transport
# of this build and each number of processes, of 1 to 5 or of NUMBERS. scripts/test runs those that are
# named behind their transport; the others are labelled soak, and `ctest -L soak` runs them. Those
# named in FAULTS `scripts/test faults` runs.
function(ringspan_process_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE" "TIMEOUT"
                        "TESTS;NUMBERS;mpi;ucx_sm;ucx_tcp;LABELS;FAULTS")
  get_directory_property(built DIRECTORY ${PROJECT_SOURCE_DIR}/comm DEFINITION transports)
  if(NOT MPIEXEC_EXECUTABLE OR NOT built MATCHES "\\((mpi|ucx)\\)")
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 240)
  endif()
  if(NOT arg_NUMBERS)
    set(arg_NUMBERS 1 2 3 4 5)
  endif()
  math(EXPR killed_after "${arg_TIMEOUT} + 20")  # mpirun ends its processes itself, before that

  list(GET arg_TESTS 0 executable)
  string(REGEX REPLACE "/.*" "_tests" executable ${executable})
  ringspan_test_filter(filter ${arg_TESTS})
  set(command $<TARGET_FILE:${executable}> ${filter})
  set_property(GLOBAL PROPERTY ringspan_${name}_on_processes ${command})  # on several hosts, too

  # Open MPI: more processes than cores, unbound, that give way to each other; as root in a container.
  set(environment OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
      OMPI_MCA_mpi_yield_when_idle=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
      MPIEXEC_TIMEOUT=${arg_TIMEOUT})
  foreach(variant mpi ucx_sm ucx_tcp)
    string(REGEX MATCH "^[a-z]+" transport ${variant})
    string(REGEX MATCH "[a-z]+$" network ${variant})
    if(NOT built MATCHES "\\(${transport}\\)")
      continue()
    endif()
    foreach(number IN LISTS arg_NUMBERS)
      set(entry ${name}@${variant}:${number})
      add_test(NAME ${entry} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${number}
                                     ${command})
      set_tests_properties(${entry} PROPERTIES
        LABELS "${arg_LABELS};${transport}" TIMEOUT ${killed_after} PROCESSORS ${number} RUN_SERIAL ${arg_ALONE}
        ENVIRONMENT "${environment};RINGSPAN_TEST_TRANSPORT=${transport}")
      if(transport STREQUAL ucx)
        set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT UCX_TLS=self,${network} ${ringspan_few_ucx_buffers})
      endif()
      if(NOT number IN_LIST arg_${variant})
        set_property(TEST ${entry} APPEND PROPERTY LABELS soak)
      endif()
      if("${variant}:${number}" IN_LIST arg_FAULTS)
        set_property(TEST ${entry} APPEND PROPERTY LABELS faults)
      endif()
    endforeach()
  endforeach()
endfunction()
