# Tests that are not unit tests of one folder: lint, golden, MPI, end to end.
add_test(NAME lint.format COMMAND ${CMAKE_SOURCE_DIR}/tests/lint/format.sh ${CMAKE_SOURCE_DIR})
set(lints lint.format)
find_program(python NAMES python3 NO_CACHE)
if(python)
  foreach(rule layers openmp forms functions names circles contracts openings)
    add_test(NAME lint.${rule} COMMAND ${python} ${CMAKE_SOURCE_DIR}/tests/lint/source.py ${rule} ${CMAKE_SOURCE_DIR})
    list(APPEND lints lint.${rule})
  endforeach()
  foreach(rule links environment messages)
    add_test(NAME lint.${rule} COMMAND ${python} ${CMAKE_SOURCE_DIR}/tests/lint/docs.py ${rule} ${CMAKE_SOURCE_DIR})
    list(APPEND lints lint.${rule})
  endforeach()
  add_test(NAME lint.rules COMMAND ${python} ${CMAKE_SOURCE_DIR}/tests/lint/source_rules.py ${CMAKE_SOURCE_DIR})
  add_test(NAME lint.docs_rules COMMAND ${python} ${CMAKE_SOURCE_DIR}/tests/lint/docs_rules.py)
  list(APPEND lints lint.rules lint.docs_rules)
endif()
set_tests_properties(${lints} PROPERTIES LABELS lint SKIP_RETURN_CODE 77)

# Products in bf16 as on a CPU without instructions for it, and as in a build without oneDNN, whose only difference is one file.
add_test(NAME linalg.test_products_avx2 COMMAND linalg_test_products)
qtraj_test_properties(linalg.test_products_avx2 unit 300)
set_property(TEST linalg.test_products_avx2 APPEND PROPERTY ENVIRONMENT ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell)
add_executable(linalg_test_products_without ${CMAKE_SOURCE_DIR}/tests/unit/linalg/test_products.c
  ${CMAKE_SOURCE_DIR}/src/linalg/onednn.c)
target_link_libraries(linalg_test_products_without PRIVATE linalg PkgConfig::CMOCKA warnings m)
target_include_directories(linalg_test_products_without PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit)
target_compile_definitions(linalg_test_products_without PRIVATE PRODUCTS_WITHOUT)
add_test(NAME linalg.test_products_without COMMAND linalg_test_products_without)
qtraj_test_properties(linalg.test_products_without unit 300)

# A forward pass's rows as on a CPU without AVX-512, with all instruction sets.
add_test(NAME model.test_forward_avx2 COMMAND model_test_forward)
qtraj_test_properties(model.test_forward_avx2 unit 300)
set_property(TEST model.test_forward_avx2 APPEND PROPERTY ENVIRONMENT ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell)

# tests/fault/NAME.sh: short forms of tests/fault/faults.py, with the library that injects the faults in $FAULT_LIBRARY.
add_library(fault MODULE ${CMAKE_SOURCE_DIR}/tests/fault/fault.c)
target_link_libraries(fault PRIVATE warnings Threads::Threads ${CMAKE_DL_LIBS})

# Each tests/{golden,mpi,e2e,fault,slurm}/NAME.sh runs with the binary under test in $QTRAJ; 77 means skipped.
file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/golden/*.sh ${CMAKE_SOURCE_DIR}/tests/mpi/*.sh
  ${CMAKE_SOURCE_DIR}/tests/e2e/*.sh ${CMAKE_SOURCE_DIR}/tests/fault/*.sh
  ${CMAKE_SOURCE_DIR}/tests/slurm/*.sh)
# What mpi.losses does to the workers of a run.
add_library(visit_fault MODULE ${CMAKE_SOURCE_DIR}/tests/tools/visit_fault.c)
target_link_libraries(visit_fault PRIVATE ${CMAKE_DL_LIBS})
target_include_directories(visit_fault PRIVATE $<TARGET_PROPERTY:MPI::MPI_C,INTERFACE_INCLUDE_DIRECTORIES>)
# What mpi.messages does to the ranks of a run.
add_library(message_fault MODULE ${CMAKE_SOURCE_DIR}/tests/tools/message_fault.c)
target_link_libraries(message_fault PRIVATE MPI::MPI_C)
foreach(script IN LISTS scripts)
  get_filename_component(name ${script} NAME_WE)
  get_filename_component(kind ${script} DIRECTORY)
  get_filename_component(kind ${kind} NAME)
  add_test(NAME ${kind}.${name} COMMAND ${CMAKE_COMMAND} -E env QTRAJ=$<TARGET_FILE:qtraj>
    FAULT=$<TARGET_FILE:visit_fault> MESSAGE_FAULT=$<TARGET_FILE:message_fault> FAULT_LIBRARY=$<TARGET_FILE:fault>
    SOURCE=${CMAKE_SOURCE_DIR} bash ${script})
  qtraj_test_properties(${kind}.${name} ${kind} 900)
  set_tests_properties(${kind}.${name} PROPERTIES SKIP_RETURN_CODE 77 RUN_SERIAL TRUE)
endforeach()
# Those that compute on one core, and neither signal, limit nor time what they start, run beside each other, and beside slurm.sweep,
# which mostly waits, has nodes, ports and folders of its own and signals only its own jobs.
set_tests_properties(golden.figures golden.figures_any_cube golden.fits golden.report golden.average golden.gptq_models
  golden.gptq_methods golden.tokenize golden.inspect golden.curvature golden.presets golden.tutorial mpi.memory mpi.products
  mpi.memory_after mpi.curvature e2e.configs e2e.export e2e.export_sweep e2e.packed e2e.texts e2e.averages e2e.setups e2e.make_checkpoint
  e2e.without_bf16
  slurm.sweep PROPERTIES RUN_SERIAL FALSE)

# Next to the binary, for tests that load it: $(dirname "$QTRAJ")/libkill_at_line.so.
add_library(kill_at_line MODULE ${CMAKE_SOURCE_DIR}/tests/tools/kill_at_line.c)
