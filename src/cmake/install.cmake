# cmake --install BUILD --prefix PREFIX: bin/qtraj, and below share/ man pages and completion for bash and zsh, which
# manuals.py makes from the tables of commands and options, as the binary tells them.
include(GNUInstallDirs)

# Libraries outside the system's folders (modules, Spack) are found from the installed binary too.
set_target_properties(qtraj PROPERTIES INSTALL_RPATH_USE_LINK_PATH TRUE)

find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
  set(share ${CMAKE_BINARY_DIR}/share)
  add_custom_command(OUTPUT ${share}/man/man1/qtraj.1 DEPENDS qtraj ${CMAKE_SOURCE_DIR}/src/cmake/manuals.py
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${share}
    COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0
      ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/src/cmake/manuals.py $<TARGET_FILE:qtraj> ${share}
    COMMENT "Writing man pages and completion" VERBATIM)
  add_custom_target(manuals ALL DEPENDS ${share}/man/man1/qtraj.1)
  install(DIRECTORY ${share}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(DIRECTORY ${share}/bash-completion ${share}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR})
else()
  message(STATUS "No python3: man pages and completion are left out")
  add_custom_target(manuals)
endif()

install(DIRECTORY ${CMAKE_SOURCE_DIR}/slurm DESTINATION ${CMAKE_INSTALL_DATADIR}/qtraj USE_SOURCE_PERMISSIONS) # for qtraj slurm
install(DIRECTORY ${CMAKE_SOURCE_DIR}/analysis DESTINATION ${CMAKE_INSTALL_DATADIR}/qtraj # for its --report
  FILES_MATCHING PATTERN "*.py" PATTERN "report.html" PATTERN "pyproject.toml" PATTERN "julia" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(TARGETS qtraj RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
