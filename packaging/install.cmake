# What `make install` and `make deb` install. The folders are those of GNUInstallDirs; the program
# looks for its configuration in /etc/photopool, so sysconfdir is /etc also below /usr/local.
set(CMAKE_INSTALL_SYSCONFDIR /etc CACHE PATH "folder of the configuration")
include(GNUInstallDirs)
# systemd also looks for units, and systemd-sysusers for users, in lib/ below /usr/local.
set(PP_UNIT_DIR lib/systemd/system CACHE PATH "folder of systemd's units")

set(PP_BIN ${CMAKE_INSTALL_FULL_BINDIR})
set(PP_ETC ${CMAKE_INSTALL_FULL_SYSCONFDIR}/photopool)
foreach(unit photopool.service photopool@.service)
  configure_file(packaging/systemd/${unit}.in ${CMAKE_BINARY_DIR}/packaging/${unit} @ONLY)
endforeach()

# The target `pages`: what the program itself prints, as files.
set(pages ${CMAKE_BINARY_DIR}/packaging)
set(completions)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${pages}/photopool.${shell} DEPENDS photopool
                     COMMAND photopool completion ${shell} > ${pages}/photopool.${shell})
  list(APPEND completions ${pages}/photopool.${shell})
endforeach()
add_custom_command(OUTPUT ${pages}/photopool.1 ${pages}/photopool.yaml.5
                   DEPENDS photopool scripts/manpages CHANGELOG.md
                   COMMAND ${CMAKE_SOURCE_DIR}/scripts/manpages $<TARGET_FILE:photopool> ${pages})
add_custom_target(pages DEPENDS photopool ${completions} ${pages}/photopool.1 ${pages}/photopool.yaml.5)

install(TARGETS photopool)
install(FILES ${pages}/photopool.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${pages}/photopool.yaml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
install(FILES ${pages}/photopool.bash RENAME photopool DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
set(zsh site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # Debian's zsh
  set(zsh vendor-completions)
endif()
install(FILES ${pages}/photopool.zsh RENAME _photopool DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${zsh})
install(FILES ${pages}/photopool.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${pages}/photopool.service ${pages}/photopool@.service DESTINATION ${PP_UNIT_DIR})
install(FILES packaging/systemd/sysusers.conf RENAME photopool.conf DESTINATION lib/sysusers.d)
install(FILES README.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
option(PP_DEBIAN "for Debian's package, which makes its own files of licence and changes" OFF)
if(NOT PP_DEBIAN)
  install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
# The configuration of this machine stays as it is.
install(CODE "
  set(file \"\$ENV{DESTDIR}${PP_ETC}/photopool.yaml\")
  if(EXISTS \"\${file}\")
    message(STATUS \"Kept: \${file}\")
  else()
    file(INSTALL \"${CMAKE_SOURCE_DIR}/packaging/photopool.yaml\" DESTINATION \"${PP_ETC}\")
  endif()")
