# The two functions that make every target of the project.

# qtraj_module(NAME DEPENDS ...): the folder src/NAME as one static library. Sources are globbed, so that a new
# method or architecture is one new file and one line in its table, and no edit here.
function(qtraj_module name)
  cmake_parse_arguments(M "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.c)
  if(NOT sources)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${M_DEPENDS})
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    return()
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${M_DEPENDS} PRIVATE warnings)
endfunction()

# qtraj_f64(NAME DEPENDS ... PREFIXES ... HEADERS GLOB... SOURCES GLOB...): sources of other modules compiled with
# QTRAJ_REAL_F64. So that a program can link both, every identifier PREFIX_* in the headers ends in _f64 there: a header
# of #defines, included before all others, renames them.
function(qtraj_f64 name)
  cmake_parse_arguments(M "" "" "DEPENDS;PREFIXES;HEADERS;SOURCES" ${ARGN})
  list(TRANSFORM M_HEADERS PREPEND ${CMAKE_SOURCE_DIR}/)
  list(TRANSFORM M_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/)
  file(GLOB headers CONFIGURE_DEPENDS ${M_HEADERS})
  file(GLOB sources CONFIGURE_DEPENDS ${M_SOURCES})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
  list(JOIN M_PREFIXES "|" prefixes)
  set(renames "")
  foreach(header IN LISTS headers)
    file(READ ${header} text)
    string(REGEX REPLACE "[^A-Za-z0-9_]+" ";" words "${text}")
    list(FILTER words INCLUDE REGEX "^(${prefixes})_[a-z0-9_]+$")
    list(APPEND renames ${words})
  endforeach()
  list(REMOVE_DUPLICATES renames)
  list(TRANSFORM renames REPLACE "(.+)" "#define \\1 \\1_f64")
  list(JOIN renames "\n" renames)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.h CONTENT "${renames}\n")
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${sources})
  target_compile_definitions(${name} PUBLIC QTRAJ_REAL_F64)
  target_compile_options(${name} PUBLIC "SHELL:-include ${CMAKE_BINARY_DIR}/generated/${name}.h")
  target_link_libraries(${name} PUBLIC ${M_DEPENDS} PRIVATE warnings)
endfunction()

# qtraj_unit_tests(NAME): every tests/unit/NAME/test_*.c as one cmocka program that links only the folder's target.
# A file that has a line "NP: 1 3" in its first comment runs under mpirun with those numbers of ranks; one that has
# "REAL: f32 f64" is compiled once more against NAME_f64.
function(qtraj_unit_tests name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${name}/test_*.c)
  foreach(source IN LISTS sources)
    get_filename_component(test ${source} NAME_WE)
    set(target ${name}_${test})
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE ${name} PkgConfig::CMOCKA warnings m)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit)
    target_compile_definitions(${target} PRIVATE FIXTURES="${CMAKE_SOURCE_DIR}/tests/fixtures"
      CONFIGS="${CMAKE_SOURCE_DIR}/configs")
    file(STRINGS ${source} reals REGEX "REAL: f32 f64" LIMIT_COUNT 1)
    if(reals)
      add_executable(${target}_f64 ${source})
      target_link_libraries(${target}_f64 PRIVATE ${name}_f64 PkgConfig::CMOCKA warnings m)
      target_include_directories(${target}_f64 PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit)
      target_compile_definitions(${target}_f64 PRIVATE FIXTURES="${CMAKE_SOURCE_DIR}/tests/fixtures")
      add_test(NAME ${name}.${test}_f64 COMMAND ${target}_f64)
      qtraj_test_properties(${name}.${test}_f64 unit)
    endif()
    file(STRINGS ${source} ranks REGEX "NP: [0-9 ]+" LIMIT_COUNT 1)
    if(ranks)
      string(REGEX MATCHALL "[0-9]+" ranks "${ranks}")
      foreach(np IN LISTS ranks)
        add_test(NAME ${name}.${test}.np${np}
          COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe ${MPIEXEC_NUMPROC_FLAG} ${np} $<TARGET_FILE:${target}>)
        qtraj_test_properties(${name}.${test}.np${np} "unit;mpi")
        if(np GREATER 2)
          qtraj_one_thread(${name}.${test}.np${np})
          set_tests_properties(${name}.${test}.np${np} PROPERTIES RESOURCE_GROUPS places:3)
        endif()
      endforeach()
    else()
      add_test(NAME ${name}.${test} COMMAND ${target})
      qtraj_test_properties(${name}.${test} unit)
    endif()
  endforeach()
endfunction()

# Open MPI and libraries beneath it leak a little at exit, so leaks are looked for by hand, not by the preset.
# Tests share the cores: a thread that waits sleeps instead of spinning on a core that another test needs, and a rank that waits lets others
# run, which Open MPI does by itself only if there are more ranks than cores. Memory that is freed is kept
# for the next block: for small models, faults of its pages take as long as the computations. Tests of memory unset this (lib.sh).
# Open MPI would look for networks that tests do not use, a fifth of a second for each start.
# Of three places a core (tests/run.sh) tests that compute take two; the others wait most of their time for processes, files and clocks.
function(qtraj_test_properties name labels)
  set(places 1)
  if(labels MATCHES "unit|golden|mpi")
    set(places 2)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" RESOURCE_GROUPS places:${places})
  set_property(TEST ${name} PROPERTY ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml=ob1
    MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824)
endfunction()

# For tests of many small parallel loops, and of more ranks than two: on a busy machine a second thread gets a core some milliseconds after
# each loop has begun, and the others wait for it.
function(qtraj_one_thread)
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT OMP_NUM_THREADS=1)
endfunction()
