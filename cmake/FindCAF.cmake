# Finds the C++ Actor Framework 0.17, which Debian ships without a CMake config.
#
#   find_package(CAF 0.17.6 REQUIRED COMPONENTS core io)
#
# defines CAF::core and CAF::io (io brings core along).

find_path(CAF_INCLUDE_DIR NAMES caf/actor_system.hpp)

if(CAF_INCLUDE_DIR AND EXISTS "${CAF_INCLUDE_DIR}/caf/config.hpp")
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" caf_version_line REGEX "#define CAF_VERSION ")
  string(REGEX REPLACE ".*CAF_VERSION +([0-9]+).*" "\\1" caf_version_number "${caf_version_line}")
  if(caf_version_number MATCHES "^[0-9]+$")
    math(EXPR caf_major "${caf_version_number} / 10000")
    math(EXPR caf_minor "(${caf_version_number} / 100) % 100")
    math(EXPR caf_patch "${caf_version_number} % 100")
    set(CAF_VERSION "${caf_major}.${caf_minor}.${caf_patch}")
  endif()
endif()

set(caf_required_libraries)
foreach(component IN LISTS CAF_FIND_COMPONENTS)
  find_library(CAF_${component}_LIBRARY NAMES caf_${component})
  list(APPEND caf_required_libraries CAF_${component}_LIBRARY)
  if(CAF_${component}_LIBRARY)
    set(CAF_${component}_FOUND TRUE)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  CAF
  REQUIRED_VARS CAF_INCLUDE_DIR ${caf_required_libraries}
  VERSION_VAR CAF_VERSION
  HANDLE_COMPONENTS)

if(CAF_FOUND)
  foreach(component IN LISTS CAF_FIND_COMPONENTS)
    if(NOT TARGET CAF::${component})
      add_library(CAF::${component} UNKNOWN IMPORTED)
      set_target_properties(
        CAF::${component} PROPERTIES IMPORTED_LOCATION "${CAF_${component}_LIBRARY}"
                                     INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}")
    endif()
  endforeach()
  if(TARGET CAF::io AND TARGET CAF::core)
    set_property(TARGET CAF::io APPEND PROPERTY INTERFACE_LINK_LIBRARIES CAF::core)
  endif()
endif()

mark_as_advanced(CAF_INCLUDE_DIR)
