#!/bin/sh
# Every #include "folder/x.h" of a file in src/folder must be allowed by layers.txt, and only main.c says MPI_COMM_WORLD.
cd "$1" || exit 2
bad=0
for file in src/*/*.[ch]; do
    folder=$(basename "$(dirname "$file")")
    allowed=" $folder $(sed -n "s/^$folder://p" tests/lint/layers.txt) "
    for include in $(sed -n 's/^#include "\([a-z]*\)\/.*/\1/p' "$file"); do
        case "$allowed" in
        *" $include "*) ;;
        *) echo "$file: $folder may not include $include" && bad=1 ;;
        esac
    done
    if grep -n 'MPI_COMM_WORLD' "$file"; then
        echo "$file: only main.c names MPI_COMM_WORLD" && bad=1
    fi
done
exit $bad
