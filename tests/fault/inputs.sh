#!/usr/bin/env bash
# Inputs of a sweep that change at some moment of a run; QTRAJ_INPUTS: how many changes, of the kinds in turn.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
mkdir "$work/sweep" && cd "$work/sweep" || exit 2
"$python" "$SOURCE/tests/fault/inputs.py" --changes "${QTRAJ_INPUTS:-6}" --seed "${QTRAJ_INPUTS_SEED:-1}" --verbose
