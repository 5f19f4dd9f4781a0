/* completion: shell scripts that complete commands, flags and the values that a flag may have. */
#pragma once
#include "cli/cli.h"

/* Prints the script for a shell. ERR_NOMEM. */
MUST_USE enum status completion_bash(FILE *out, struct err *e);
MUST_USE enum status completion_zsh(FILE *out, struct err *e);
