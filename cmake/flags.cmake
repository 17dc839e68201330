# SPDX-License-Identifier: Apache-2.0
# What every target of Ringspan is compiled with; never installed.
add_library(ringspan_build_flags INTERFACE)
target_compile_features(ringspan_build_flags INTERFACE cxx_std_20)
target_compile_options(ringspan_build_flags INTERFACE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers)
# A multiplication and an addition are fused only where the code says so, or sums would depend on the compiler.
target_compile_options(ringspan_build_flags INTERFACE -ffp-contract=off)
if(RINGSPAN_WERROR)
  target_compile_options(ringspan_build_flags INTERFACE -Werror)
endif()

# Joined sources let the compiler's memory grow; to search it for garbage costs a twelfth of the build and frees little.
if(RINGSPAN_JOIN_SOURCES AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ringspan_build_flags INTERFACE "SHELL:--param ggc-min-expand=1000"
                                                        "SHELL:--param ggc-min-heapsize=1048576")
endif()

# Sanitizers: low optimisation and little debug information keep the builds short; the sub-checks of
# undefined left out double the build time and find what the address sanitizer finds too.
if(RINGSPAN_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize=null,alignment,object-size,vptr
               -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(RINGSPAN_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(RINGSPAN_SANITIZE)
  message(FATAL_ERROR "RINGSPAN_SANITIZE is '${RINGSPAN_SANITIZE}'; known are 'address' and 'thread'")
endif()
if(RINGSPAN_SANITIZE)
  target_compile_options(ringspan_build_flags INTERFACE ${sanitize} -g1)
  target_link_options(ringspan_build_flags INTERFACE ${sanitize})
  target_compile_definitions(ringspan_build_flags INTERFACE RINGSPAN_SANITIZED=1)
endif()

# Kernel sources need -O3 in every preset: without unrolling GCC reaches a quarter of the machine's peak.
# Under a sanitizer -O1: their compiler takes three times as long with it, and no test there waits for speed.
set(RINGSPAN_KERNEL_OPTIONS -O3)
if(RINGSPAN_SANITIZE)
  set(RINGSPAN_KERNEL_OPTIONS -O1)
endif()

# <ringspan/layer/name.hpp> works in the build tree, too.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include/ringspan SYMBOLIC)

# ringspan_precompile(<target> [headers...]): these and the standard headers that most sources include are
# parsed once for the target, which halves its build. Sources with options of their own are to skip it.
function(ringspan_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN}
    <algorithm> <chrono> <cmath> <functional> <map> <memory> <optional> <span> <string> <thread> <utility> <vector>)
endfunction()

# ringspan_layer(<target> <alias>): a library of one layer. Its users include <ringspan/layer/name.hpp>,
# its sources "layer/name.hpp".
function(ringspan_layer target alias)
  add_library(${target} STATIC)
  add_library(ringspan::${alias} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${alias} POSITION_INDEPENDENT_CODE ON
                                             VERIFY_INTERFACE_HEADER_SETS ON)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:ringspan_build_flags>)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  ringspan_precompile(${target})
endfunction()

# ringspan_join_sources(<target> [ALONE files...]): in a build with RINGSPAN_JOIN_SOURCES the sources of a folder
# are compiled a few at a time, which spares parsing the same headers for each and takes less than half as long.
# ALONE: those whose anonymous namespaces have names of others in the folder.
set(RINGSPAN_SOURCES_PER_UNIT 8)
function(ringspan_join_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ALONE")
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^[^$/][^$]*[.]cpp$")
  if(arg_ALONE)
    list(REMOVE_ITEM sources ${arg_ALONE})
  endif()
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "in_${folder}" folder)
    math(EXPR ${folder} "${${folder}} + 1")
    math(EXPR unit "${${folder}} / ${RINGSPAN_SOURCES_PER_UNIT}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${unit})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${RINGSPAN_JOIN_SOURCES} UNITY_BUILD_MODE GROUP)
endfunction()
