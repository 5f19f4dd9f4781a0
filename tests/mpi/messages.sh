#!/usr/bin/env bash
# Ranks that are killed, stopped or hang at one message of a run: it never waits for ever, and ends, if need be after another
# start, with the cube of an undisturbed run. QTRAJ_MESSAGES: arguments of tests/tools/messages.py; tests/README.md has the long form.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
: "${MESSAGE_FAULT:?the library of tests/tools/message_fault.c}"
repeated_sweep 4 <<YAML
name: messages
results: whole.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 16, skip: 1, samples: 2}]
YAML
# shellcheck disable=SC2086
"$python" "$SOURCE/tests/tools/messages.py" "$work" ${QTRAJ_MESSAGES-} || fail "see above"
finish
