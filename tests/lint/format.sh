#!/bin/sh
# clang-format 14 decides the layout of every C file.
cd "$1" || exit 2
find src tests -name '*.[ch]' -print0 | xargs -0 clang-format-14 --dry-run -Werror
