#!/usr/bin/env bash
# Random kills and stops of the processes of `qtraj launch`: tests/fault/kills.py; QTRAJ_LAUNCH_KILLS="500 --jobs 4" for the long form.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
mkdir "$work/rounds" && cd "$work/rounds" || exit 2
# shellcheck disable=SC2086
"$python" "$SOURCE/tests/fault/kills.py" ${QTRAJ_LAUNCH_KILLS:-3 --jobs 3 --verbose}
