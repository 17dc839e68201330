# SPDX-License-Identifier: Apache-2.0
# cmake -DBUILD_DIR=... -DSOURCE_DIR=... -DWORK_DIR=... -DCXX=... -DGENERATOR=... -DUCX=... -P consumer_test.cmake
# Installs the build to a fresh prefix, then builds and runs the consumer against it, once with
# find_package and once with pkg-config.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    string(JOIN " " command ${ARGV})
    message(FATAL_ERROR "failed: ${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(prefix ${WORK_DIR}/prefix)
file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})

run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE_DIR} -B ${WORK_DIR}/build -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/embed_comm)
message(STATUS "find_package: ${output}")
run(${WORK_DIR}/build/embed_attention)
message(STATUS "find_package: ${output}")
run(${WORK_DIR}/build/embed_model)
message(STATUS "find_package: ${output}")
if(UCX)
  run(${WORK_DIR}/build/embed_ucx)
  message(STATUS "find_package: ${output}")
endif()

file(GLOB_RECURSE pc ${prefix}/ringspan-comm.pc)
cmake_path(GET pc PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
foreach(layer comm attention model)
  run(pkg-config --cflags --libs ringspan-${layer})
  separate_arguments(flags UNIX_COMMAND "${output}")
  run(${CXX} -std=c++20 ${SOURCE_DIR}/embed_${layer}.cpp -o ${WORK_DIR}/embed_${layer} ${flags})
  run(${WORK_DIR}/embed_${layer})
  message(STATUS "pkg-config: ${output}")
endforeach()
