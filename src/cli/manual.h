/* manual: man pages and completion, made from the tables of commands, flags and options. */
#pragma once
#include "cli/cli.h"

/* Writes into a folder what belongs into share/: man/man1/qtraj.1 and a page qtraj-COMMAND.1 for
 * each command, man/man5/qtraj-sweep.5, bash-completion/completions/qtraj and
 * zsh/site-functions/_qtraj. Makes the folders. ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status manual_write(const char *folder, struct err *e);
