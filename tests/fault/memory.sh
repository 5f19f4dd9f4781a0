#!/usr/bin/env bash
# Allocations that fail, some in every command; QTRAJ_FAULTS=--long for all of them.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
mkdir "$work/sweep" && cd "$work/sweep" || exit 2
# shellcheck disable=SC2086
"$python" "$SOURCE/tests/fault/faults.py" memory ${QTRAJ_FAULTS:-}
