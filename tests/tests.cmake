# Tests that are not unit tests of one folder: lint, golden, MPI, end to end.
add_test(NAME lint.layers COMMAND ${CMAKE_SOURCE_DIR}/tests/lint/layers.sh ${CMAKE_SOURCE_DIR})
add_test(NAME lint.format COMMAND ${CMAKE_SOURCE_DIR}/tests/lint/format.sh ${CMAKE_SOURCE_DIR})
set_tests_properties(lint.layers lint.format PROPERTIES LABELS lint SKIP_RETURN_CODE 77)

# Each tests/{golden,mpi,e2e}/NAME.sh runs with the binary under test in $QTRAJ; 77 means skipped.
file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/golden/*.sh ${CMAKE_SOURCE_DIR}/tests/mpi/*.sh
  ${CMAKE_SOURCE_DIR}/tests/e2e/*.sh)
foreach(script IN LISTS scripts)
  get_filename_component(name ${script} NAME_WE)
  get_filename_component(kind ${script} DIRECTORY)
  get_filename_component(kind ${kind} NAME)
  add_test(NAME ${kind}.${name} COMMAND ${CMAKE_COMMAND} -E env QTRAJ=$<TARGET_FILE:qtraj>
    SOURCE=${CMAKE_SOURCE_DIR} bash ${script})
  qtraj_test_properties(${kind}.${name} ${kind} 900)
  set_tests_properties(${kind}.${name} PROPERTIES SKIP_RETURN_CODE 77 RUN_SERIAL TRUE)
endforeach()
