#!/bin/sh
# clang-format 14 determines the layout of every C file.
cd "$1" || exit 2
if ! command -v clang-format-14 >/dev/null; then
    echo "clang-format-14 is not installed: the layout of the C files was not checked"
    exit 77
fi
find src tests docs -name '*.[ch]' -print0 | xargs -0 clang-format-14 --dry-run -Werror
