# SPDX-License-Identifier: Apache-2.0
# Kernels for GPUs, compiled where a CUDA toolkit is found: in PATH, CUDA_HOME, the usual place, or where
# scripts/setup --cuda puts one. Nothing of CUDA is linked: the driver loads the image.
file(GLOB cuda_of_setup ${PROJECT_SOURCE_DIR}/build/cuda/lib/python3*/site-packages/nvidia/cu*/bin)
find_program(RINGSPAN_NVCC nvcc PATHS ENV CUDA_HOME PATH_SUFFIXES bin DOC "CUDA's compiler")
find_program(RINGSPAN_NVCC nvcc PATHS /usr/local/cuda/bin ${cuda_of_setup} NO_DEFAULT_PATH)
# Of the GPUs that we compile for, those that this compiler knows; and PTX of the newest, for what comes later.
set(cuda_targets)
set(cuda_names)
if(RINGSPAN_NVCC)
  execute_process(COMMAND ${RINGSPAN_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  execute_process(COMMAND ${RINGSPAN_NVCC} --version OUTPUT_VARIABLE cuda_toolkit ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+)" cuda_toolkit "${cuda_toolkit}")
  set(cuda_toolkit ${CMAKE_MATCH_1})
  foreach(number 80 90 100)
    if(number IN_LIST known)
      list(APPEND cuda_targets -gencode arch=compute_${number},code=sm_${number})
      list(APPEND cuda_names sm_${number})
      set(ptx -gencode arch=compute_${number},code=compute_${number})
    endif()
  endforeach()
  list(APPEND cuda_targets ${ptx})
  list(JOIN cuda_names ", " cuda_names)
endif()
if(cuda_targets)
  message(STATUS "Kernels for GPUs: ${cuda_names}, by ${RINGSPAN_NVCC}")
else()
  message(STATUS "Kernels for GPUs: not built, no CUDA toolkit found that knows sm_80 (scripts/setup --cuda installs one)")
endif()

# ringspan_cuda_images(<target> <images.cpp> <name>.cu...): compiles kernels for these; images.cpp includes each
# as an array of that name, from the file RINGSPAN_CUDA_<NAME>.
function(ringspan_cuda_images target images)
  if(NOT cuda_targets OR RINGSPAN_SANITIZE)  # no sanitizer sees into an image
    return()
  endif()
  get_filename_component(bin ${RINGSPAN_NVCC} DIRECTORY)
  set(definitions "RINGSPAN_CUDA_TARGETS=\"${cuda_names}\"" RINGSPAN_CUDA_TOOLKIT=${cuda_toolkit})
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME_WE)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}_image)
    add_custom_command(
      OUTPUT ${output}.inc
      COMMAND ${RINGSPAN_NVCC} -std=c++20 --expt-relaxed-constexpr -diag-suppress 554 -O3 -I${PROJECT_SOURCE_DIR} -fatbin
              ${cuda_targets} -MD -MF ${output}.d -MT ${output}.inc
              ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${output}.fatbin
      COMMAND ${bin}/bin2c --const --static --type longlong --name ${name} ${output}.fatbin > ${output}.inc
      MAIN_DEPENDENCY ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${output}.d VERBATIM)
    string(TOUPPER ${name} name)
    list(APPEND definitions "RINGSPAN_CUDA_${name}=\"${output}.inc\"")
    list(APPEND outputs ${output}.inc)
  endforeach()
  set_source_files_properties(${images} PROPERTIES COMPILE_DEFINITIONS "${definitions}"
                              OBJECT_DEPENDS "${outputs}" SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
