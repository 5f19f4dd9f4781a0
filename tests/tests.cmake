# Tests that are not unit tests of one folder: lint, golden, MPI, end to end.
add_test(NAME lint.format COMMAND ${CMAKE_SOURCE_DIR}/tests/lint/format.sh ${CMAKE_SOURCE_DIR})
set(lints lint.format)
find_program(python NAMES python3 NO_CACHE)
if(python)
  foreach(rule layers openmp forms functions names circles contracts openings sizes)
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
add_test(NAME math.test_products_avx2 COMMAND math_test_products)
qtraj_test_properties(math.test_products_avx2 unit)
set_property(TEST math.test_products_avx2 APPEND PROPERTY ENVIRONMENT ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell)
add_executable(math_test_products_without ${CMAKE_SOURCE_DIR}/tests/unit/math/test_products.c
  ${CMAKE_SOURCE_DIR}/src/math/onednn_none.c)
target_link_libraries(math_test_products_without PRIVATE math PkgConfig::CMOCKA warnings m)
target_include_directories(math_test_products_without PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit)
target_compile_definitions(math_test_products_without PRIVATE PRODUCTS_WITHOUT)
add_test(NAME math.test_products_without COMMAND math_test_products_without)
qtraj_test_properties(math.test_products_without unit)

# A forward pass's rows as on a CPU without AVX-512, with all instruction sets.
add_test(NAME model.test_forward_avx2 COMMAND model_test_forward)
qtraj_test_properties(model.test_forward_avx2 unit)
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
    CUBES=${CMAKE_BINARY_DIR}/cubes SOURCE=${CMAKE_SOURCE_DIR} bash ${script})
  qtraj_test_properties(${kind}.${name} ${kind})
  set_tests_properties(${kind}.${name} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
# Made-up cubes for the tests of analysis/, made once.
set_tests_properties(golden.cubes PROPERTIES FIXTURES_SETUP cubes)
set_tests_properties(golden.claims golden.figures_any_cube golden.fits golden.package golden.report golden.runs PROPERTIES FIXTURES_REQUIRED cubes)
# Tests run beside each other: each has folders, ports and processes of its own, signals only what it has started, and passes on a busy
# machine. tests/run.sh gives ctest three places for each core. Tests take one or two (qtraj_test_properties), three if their ranks compute on
# several cores. These begin first: beside a process that computes and never waits, a rank gets a core that it has given up only some
# milliseconds later, for each message, which makes its test three times as long. Tests in which ranks count as lost after a few seconds of
# silence begin first too, one after the other. What does nothing but wait takes no place.
# The memory of mpi.memory's process has been seen to grow by 8 MiB when others take all cores, so that it runs alone.
set(silent fault.start e2e.until mpi.losses mpi.messages fault.kills)
set(pairs mpi.memory_after mpi.groups mpi.groups_curvature mpi.hosts golden.quickstart_reference golden.extending mpi.replicates mpi.tasks
  golden.quickstart_products mpi.surfaces mpi.ranks mpi.presets mpi.second_order)
set(idle slurm.sweep slurm.train stage.test_stager records.test_lock run.test_startup)
set_tests_properties(${pairs} PROPERTIES RESOURCE_GROUPS places:3)
set_tests_properties(${silent} PROPERTIES RESOURCE_LOCK silent RESOURCE_GROUPS places:1)
set_property(TEST ${idle} PROPERTY RESOURCE_GROUPS)
set(cost 1000)
foreach(name IN LISTS idle silent pairs)
  set_tests_properties(${name} PROPERTIES COST ${cost})
  math(EXPR cost "${cost} - 1")
endforeach()
set_tests_properties(mpi.memory PROPERTIES RUN_SERIAL TRUE)
# Then those of which none should be left alone at the end, the longest first: about their seconds on two cores.
set_tests_properties(golden.cubes PROPERTIES COST 200)
set(seconds_100 golden.figures_any_cube)
set(seconds_80 golden.fits fault.staging)
set(seconds_70 e2e.saved_state e2e.averages e2e.command_line fault.files)
set(seconds_50 golden.figures golden.claims golden.report golden.tasks e2e.parts e2e.interrupt)
set(seconds_40 e2e.staging e2e.ownership e2e.known_parts e2e.new_cpu e2e.setups fault.grids fault.memory)
set(seconds_30 golden.tutorial golden.curvature e2e.bad_input e2e.doctor e2e.known e2e.progress e2e.added e2e.alike e2e.train mpi.curvature
  fault.inputs fault.train)
set(seconds_20 golden.average golden.outliers golden.training_page golden.runs e2e.rotation e2e.configs e2e.activations e2e.export mpi.products
  quant.test_team.np3 quant.test_team.np4)
set(seconds_10 quant.test_contract model.test_segments model.test_forward_avx2 curvature.test_hvp_laws curvature.test_hvp_laws_f64
  curvature.test_hvp_predict curvature.test_hvp_share curvature.test_hvp_spectrum cube.test_cube cli.test_exports measures.test_failures.np3
  measures.test_failures.np4 train.test_steps.np3 math.test_integers)
foreach(cost 100 80 70 50 40 30 20 10)
  set_tests_properties(${seconds_${cost}} PROPERTIES COST ${cost})
endforeach()
# What must not depend on the number of threads is computed with several in test_hvp_laws, test_grids, test_forward and test_contract, which
# choose them.
foreach(test test_hvp test_hvp_laws test_hvp_predict test_hvp_share test_hvp_spectrum)
  qtraj_one_thread(curvature.${test} curvature.${test}_f64)
endforeach()
qtraj_one_thread(model.test_segments model.test_grids model.test_rotated model.test_forward model.test_forward_avx2 quant.test_contract)
# Beside unit tests and lint, in tests/run.sh --quick.
set_property(TEST e2e.kill_resume APPEND PROPERTY LABELS quick)

# Next to the binary, for tests that load it: $(dirname "$QTRAJ")/libkill_at_line.so.
add_library(kill_at_line MODULE ${CMAKE_SOURCE_DIR}/tests/tools/kill_at_line.c)
target_link_libraries(kill_at_line PRIVATE ${CMAKE_DL_LIBS})
