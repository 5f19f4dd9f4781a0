#!/usr/bin/env bash
# Ranks that are killed, stopped or hang at one message of a run: it never waits for ever, and ends, if need be after another
# start, with the cube of an undisturbed run. QTRAJ_MESSAGES: arguments of tests/tools/messages.py; tests/README.md has the long form.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
: "${MESSAGE_FAULT:?the library of tests/tools/message_fault.c}"
fixed_text "$work/text.txt"
echo "checkpoint,step,tokens,learning_rate,phase" >"$work/trajectory.csv"
mkdir "$work/checkpoints"
for i in 1 2 3 4; do
    ln -s "$quickstart/trajectory/step000100" "$work/checkpoints/v$i"
    echo "v$i,$i,${i}000,0.001,stable" >>"$work/trajectory.csv"
done
cat >"$work/sweep.yaml" <<YAML
name: messages
results: whole.h5
models:
  - {name: m, trajectory: trajectory.csv, path: "checkpoints/{checkpoint}", tokenizer: "$quickstart/trajectory/tokenizer.json"}
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 16, skip: 1, samples: 2}]
YAML
# shellcheck disable=SC2086
"$python" "$SOURCE/tests/tools/messages.py" "$work" ${QTRAJ_MESSAGES-} || fail "see above"
finish
