# What every target of ftrt shares: warnings, sanitizers, and one way to declare a library or a test.

add_library(ftrt_options INTERFACE)
target_compile_features(ftrt_options INTERFACE cxx_std_20)
target_compile_options(ftrt_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                              -Woverloaded-virtual -ffp-contract=off)
if(FTRT_WARNINGS_AS_ERRORS)
  target_compile_options(ftrt_options INTERFACE -Werror)
endif()
if(FTRT_SANITIZE)
  target_compile_options(ftrt_options INTERFACE -fsanitize=${FTRT_SANITIZE} -fno-omit-frame-pointer
                                                -fno-sanitize-recover=all)
  target_link_options(ftrt_options INTERFACE -fsanitize=${FTRT_SANITIZE})
  target_compile_definitions(ftrt_options INTERFACE FTRT_SANITIZED=1)
endif()

# What the sanitizers' runtimes are told, in tests. A report ends the process, so that none is
# overlooked; what belongs to the binaries of others is suppressed by name, with its reason, in
# cmake/*.supp.
set(ftrt_sanitizer_environment "")
if(FTRT_SANITIZE)
  list(APPEND ftrt_sanitizer_environment
       "ASAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/asan.supp:detect_stack_use_after_return=1:strict_string_checks=1"
       "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0"
       "UBSAN_OPTIONS=print_stacktrace=1"
       "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp:second_deadlock_stack=1:halt_on_error=1")
endif()

# ftrt_library(NAME SOURCES... ): a static library of one room.
function(ftrt_library name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PUBLIC ftrt_options)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# ftrt_program(NAME SOURCES...): an executable in build/bin.
function(ftrt_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE ftrt_options)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

# ftrt_test(NAME SOURCES s... LIBRARIES l... [LABELS l...] [TIMEOUT s]): a GoogleTest program, one
# ctest entry for each TEST. Tests get FTRT_BIN (folder of the programs) and FTRT_SOURCE (the tree).
function(ftrt_test name)
  cmake_parse_arguments(arg "SERIAL" "TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  # An empty value would swallow the next property's name.
  set(properties RUN_SERIAL ${arg_SERIAL})
  if(arg_LABELS)
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(FTRT_SANITIZE)
    # Sanitized code is 5 to 20 times slower.
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE ftrt_options ${arg_LIBRARIES} ftrt_test_support
                                        GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set(environment "FTRT_BIN=${PROJECT_BINARY_DIR}/bin;FTRT_SOURCE=${PROJECT_SOURCE_DIR}")
  list(APPEND environment ${ftrt_sanitizer_environment})
  gtest_discover_tests(
    ${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT ${arg_TIMEOUT} ${properties})
  # gtest_discover_tests() takes a list of variables apart; the file it lets us run afterwards does
  # not.
  set(after ${CMAKE_CURRENT_BINARY_DIR}/${name}_environment.cmake)
  file(WRITE ${after}
       "if(${name}_TESTS)\n"
       "  set_tests_properties(\${${name}_TESTS} PROPERTIES ENVIRONMENT [==[${environment}]==])\n"
       "endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${after})
endfunction()
