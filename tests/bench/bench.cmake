# Every tests/bench/NAME.c as a program bench_NAME; `bench` builds them all. Neither is part of a plain build.
add_custom_target(bench)
file(GLOB benches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/bench/*.c)
foreach(source IN LISTS benches)
  get_filename_component(name ${source} NAME_WE)
  add_executable(bench_${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(bench_${name} PRIVATE visit sched warnings)
  add_dependencies(bench bench_${name})
endforeach()
