#!/usr/bin/env bash
# Every kind of fault of a file operation in a small sweep, at some of the moments; QTRAJ_FAULTS=--long for all of them.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
mkdir "$work/sweep" && cd "$work/sweep" || exit 2
# shellcheck disable=SC2086
"$python" "$SOURCE/tests/fault/faults.py" kill power io interrupt ${QTRAJ_FAULTS:-}
