# cmake --install BUILD --prefix PREFIX: bin/qtraj, and below share/ man pages and completion for bash and zsh, which the
# binary writes from its own tables of commands and options.
include(GNUInstallDirs)

# Libraries outside the system's folders (modules, Spack) are found from the installed binary too.
set_target_properties(qtraj PROPERTIES INSTALL_RPATH_USE_LINK_PATH TRUE)

set(share ${CMAKE_BINARY_DIR}/share)
add_custom_command(OUTPUT ${share}/man/man1/qtraj.1 DEPENDS qtraj
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${share}
  COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:qtraj> manuals ${share}
  COMMENT "Writing man pages and completion" VERBATIM)
add_custom_target(manuals ALL DEPENDS ${share}/man/man1/qtraj.1)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/slurm DESTINATION ${CMAKE_INSTALL_DATADIR}/qtraj) # for qtraj slurm
install(DIRECTORY ${CMAKE_SOURCE_DIR}/analysis DESTINATION ${CMAKE_INSTALL_DATADIR}/qtraj # for its --report
  FILES_MATCHING PATTERN "*.py" PATTERN "report.html" PATTERN "julia" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(TARGETS qtraj RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${share}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
install(DIRECTORY ${share}/bash-completion ${share}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR})
