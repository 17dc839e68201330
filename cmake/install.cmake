# SPDX-License-Identifier: Apache-2.0
# find_package(ringspan [COMPONENTS comm attention model]) and pkg-config ringspan-comm, ringspan-attention, ringspan-model.
# Each layer is an export set of its own, so that whoever embeds comm alone needs what its transports need alone.
include(CMakePackageConfigHelpers)

# Relative, so that the .pc files also hold after cmake --install --prefix.
file(RELATIVE_PATH RINGSPAN_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})

# What users of the static libraries link, too.
set(vendor_modules "")
if(RINGSPAN_UCX)
  list(APPEND vendor_modules ucx)
endif()
if(RINGSPAN_HWLOC)
  list(APPEND vendor_modules hwloc)
endif()
if(RINGSPAN_SIMGRID)
  list(APPEND vendor_modules simgrid)
endif()
list(JOIN vendor_modules " " RINGSPAN_PC_REQUIRES)
set(RINGSPAN_PC_LIBS "")
if(RINGSPAN_MPI)
  get_target_property(mpi_libraries MPI::MPI_CXX INTERFACE_LINK_LIBRARIES)
  list(JOIN mpi_libraries " " RINGSPAN_PC_LIBS)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ringspan)
foreach(layer comm attention model)
  install(TARGETS ringspan_${layer} EXPORT ringspan_${layer}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ringspan)
  install(EXPORT ringspan_${layer} NAMESPACE ringspan:: FILE ringspan_${layer}.cmake
          DESTINATION ${package_dir})
  configure_file(cmake/ringspan-${layer}.pc.in ringspan-${layer}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/ringspan-${layer}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

configure_package_config_file(cmake/ringspanConfig.cmake.in ringspanConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(ringspanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ringspanConfig.cmake ${PROJECT_BINARY_DIR}/ringspanConfigVersion.cmake
              cmake/FindUCX.cmake cmake/Findhwloc.cmake cmake/FindSimGrid.cmake
        DESTINATION ${package_dir})

if(TARGET ringspan)
  install(TARGETS ringspan RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY bench/clusters bench/texts results/published DESTINATION share/ringspan)
endif()
