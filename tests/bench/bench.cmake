# Every tests/bench/NAME.c as a program bench_NAME: in every build, so that they stay true; `bench` builds them alone.
add_custom_target(bench)
file(GLOB benches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/bench/*.c)
foreach(source IN LISTS benches)
  get_filename_component(name ${source} NAME_WE)
  add_executable(bench_${name} ${source})
  target_link_libraries(bench_${name} PRIVATE plan visit sched warnings)
  add_dependencies(bench bench_${name})
endforeach()
