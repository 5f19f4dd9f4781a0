#!/usr/bin/env bash
# What a change of a finished sweep makes pending, and that the plan says why in a line: options and text of curvature, bits of movement's
# grid, a text's content, another tokenizer, `limit` of tasks. Curvature of some checkpoints only. Printing Slurm's jobs makes no folder.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py
quickstart_sweep '1p;/step000100/p;/step001200/p' fixed_text <<'YAML'
name: reasons
results: cube.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: first, text: text.txt, length: 64, samples: 2}]
movement: rtn
curvature: {sharpness: none, trace: 1, second_order: total, sequences: 1, length: 64}
YAML
tail -n +100 "$work/text.txt" >"$work/more.txt"
# expect CODE COMMAND ARGUMENT ...
expect() {
    local got
    timeout 600 "$QTRAJ" "$2" "$work/sweep.yaml" "${@:3}" >"$work/out" 2>"$work/err"
    got=$?
    [ $got = "$1" ] || fail "${*:2}: exit code $got: $(cat "$work/err")"
}
says() { grep -qF -- "$1" "$work/out" "$work/err" || fail "no '$1' in: $(cat "$work/out" "$work/err")"; }
silent() { ! grep -qF -- "pending again" "$work/err" || fail "$1: $(cat "$work/err")"; }
expect 0 run
expect 0 plan --rate 10
says "left: 0 visits"
says "curvature of first 64 tokens in 1 sequence"
silent "no change"
expect 0 plan --rate 10 --set curvature.trace=2 --set curvature.sequences=2
says "curvature is pending again, as a whole: trace: 1 -> 2, sequences: 1 -> 2"
says "second order, with its cells, is pending again, as a whole"
expect 0 plan --rate 10 --set curvature.trace=2
says "curvature is pending again, as a whole: trace: 1 -> 2"
[ "$(grep -c "pending again" "$work/err")" = 1 ] || fail "trace: $(cat "$work/err")"
expect 0 plan --rate 10 --set 'bits=[3,4]'
says "movement is pending again, in part: bits: [4] -> [3,4]"
[ "$(grep -c "pending again" "$work/err")" = 1 ] || fail "bits: $(cat "$work/err")"
# So is a method's: it is no reason.
expect 0 plan --rate 10 --set 'bits=[3,4]' --set 'methods[0].name=renamed' --set movement=renamed
says "movement is pending again, in part: bits: [4] -> [3,4]"
expect 0 plan --rate 10 --set 'methods[0].group_size=32'
says "cells of rtn are pending again: group_size: 64 -> 32"
# A text's label is a label, also where curvature is measured on the first text.
renamed=(--set 'evaluation[0].name=renamed')
expect 0 plan --rate 10 "${renamed[@]}"
says "left: 0 visits"
silent "a renamed text"
expect 0 plan --rate 10 "${renamed[@]}" --set curvature.trace=2
says "curvature is pending again, as a whole: trace: 1 -> 2"
! grep -q "first evaluation text" "$work/err" || fail "a renamed text: $(cat "$work/err")"
# Another tokenizer, which may say the same.
"$python" - "$quickstart/trajectory/tokenizer.json" "$work/same.json" "$work/other.json" <<'PY'
import json, sys
x = json.load(open(sys.argv[1]))
json.dump(x, open(sys.argv[2], "w"), indent=1)
x["model"]["merges"] = x["model"]["merges"][:-1]
json.dump(x, open(sys.argv[3], "w"))
PY
expect 0 plan --rate 10 --set "models[0].tokenizer=$work/same.json"
says "left: 0 visits"
silent "the same tokenizer"
expect 0 plan --rate 10 --set "models[0].tokenizer=$work/other.json"
says "quickstart: another tokenizer than in the last run ("
[ "$(grep -c "another tokenizer" "$work/err")" = 1 ] || fail "another tokenizer: $(cat "$work/err")"
# The options of tasks.
tasks=(--rate 10 --set "results=$work/tasks.h5" --set "tasks.data=$SOURCE/tests/fixtures/tasks/inputs" --set curvature=null --set movement=null)
expect 0 run "${tasks[@]:2}" --set 'tasks.names=[piqa]' --set tasks.limit=3
expect 0 plan "${tasks[@]}" --set 'tasks.names=[piqa, arc_easy]' --set tasks.limit=3
silent "a further task"
expect 0 plan "${tasks[@]}" --set 'tasks.names=[piqa, arc_easy]' --set tasks.limit=2
says "accuracies are pending again: limit: 3 -> 2"
! grep -q "names" "$work/err" || fail "a further task: $(cat "$work/err")"
# Only some checkpoints: nothing that is there is made again; of a new sweep only those are.
for which in 'checkpoints="*1200"' every=2; do
    expect 0 plan --rate 10 --set "curvature.$which"
    says "left: 0 visits"
    expect 0 run --set "results=$work/some.h5" --set "curvature.$which"
    [ "$(grep -c '"type":"curvature"' "$work/some.journal")" = 1 ] || fail "$which: curvature of more than one checkpoint"
    [ "$(grep -c '"type":"completion"' "$work/some.journal")" = 2 ] || fail "$which: second order of more than one checkpoint and its cell"
    expect 0 run --set "results=$work/some.h5" --set "curvature.$which"
    says "nothing to do"
    rm "$work"/some.*
done
expect 2 plan --rate 10 --set curvature.phase=none
says "curvature.phase: none: no checkpoint of the sweep is so"
# Jobs that are only printed.
expect 0 slurm --rate 10 --node-cores 4 --node-memory 8 --set "results=$work/made/cube.h5"
says "mkdir -p '$work/made'"
[ ! -e "$work/made" ] || fail "printing has made a folder"
# Nodes of as many cores but less memory count; jobs are known by the folder behind links, also before it is there.
mkdir "$work/bin" "$work/real" && ln -s real "$work/link"
printf '#!/bin/sh\nprintf "16 4096\\n8 16384\\n8 8192\\n"\n' >"$work/bin/sinfo" && chmod +x "$work/bin/sinfo"
for made in no yes; do
    cd "$work/real" && PATH=$work/bin:$PATH expect 0 slurm --rate 10 --set "results=$work/link/made/cube.h5"
    says " of 8 cores and 8 GiB"
    says "--comment='qtraj $work/real/made/cube.h5'"
    mkdir -p made && cd - >/dev/null || exit 2
done
# What the merge's report needs is checked before anything is submitted: its folder, and the Python of the scripts beside the binary.
mkdir -p "$work"/tree/{build/dev,slurm,analysis}
cp "$QTRAJ" "$work/tree/build/dev/qtraj" && cp "$SOURCE"/slurm/*.sbatch "$work/tree/slurm" && touch "$work/tree/analysis/report.py"
printf '#!/bin/sh\necho "no Python here has the modules h5py" >&2\necho "python3 -m venv installs them" >&2\nexit 1\n' >"$work/tree/slurm/python.sh"
chmod +x "$work/tree/slurm/python.sh"
submit() {
    local got
    "$work/tree/build/dev/qtraj" slurm "$work/sweep.yaml" --rate 10 --node-cores 4 --node-memory 8 --set "results=$work/other.h5" --report "$1" >"$work/out" 2>"$work/err"
    got=$?
    [ $got = "$2" ] || fail "slurm --report $1: exit code $got: $(cat "$work/out" "$work/err")"
}
submit "$work/sweep.yaml/page" 2
says "warning: --report: no Python here has the modules h5py;python3 -m venv installs them"
says "warning: --report: $work/sweep.yaml/page: $work/sweep.yaml is no folder"
says "there is nothing to submit: 2 faults"
printf '#!/bin/sh\necho "Python: /a, since python3 lacks modules" >&2\necho /a\n' >"$work/tree/slurm/python.sh"
submit "$work/page" 0
cp "$work/sweep.yaml" "$work/before.yaml"
sed -i 's|^evaluation: \[|&{name: second, text: more.txt, length: 64, samples: 2}, |' "$work/sweep.yaml"
expect 0 plan --rate 10
says "curvature is pending again, as a whole: it is measured on the first evaluation text, which was first and is second"
says "second order, with its cells, is pending again, as a whole: it is measured on the first evaluation text, which was first and is second"
mv "$work/before.yaml" "$work/sweep.yaml"
cp "$work/text.txt" "$work/former.txt"
sed -i "1s/^/more /" "$work/text.txt"
expect 0 plan --rate 10
grep -qE "text.txt: has changed since the last run \\([0-9a-f]{8}\\.\\. -> [0-9a-f]{8}\\.\\.\\): what was measured with it" "$work/err" || fail "text: $(cat "$work/err")"
mv "$work/text.txt" "$work/away.txt"
timeout 100 "$QTRAJ" plan "$work/sweep.yaml" --rate 10 >"$work/out" 2>"$work/err" # its code says that a text is missing
says "text.txt: No such file or directory; a run refuses to start"
says "left: 0 visits" # what is finished stays so
mv "$work/away.txt" "$work/text.txt"
# A text that is put back: what was measured with it is there, and nothing is pending.
cp "$work/text.txt" "$work/changed.txt"
plain=(--set "results=$work/plain.h5" --set curvature=null --set movement=null)
for text in former changed; do
    cp "$work/$text.txt" "$work/text.txt"
    expect 0 run "${plain[@]}"
done
says "has changed since the last run"
cp "$work/former.txt" "$work/text.txt"
expect 0 plan --rate 10 "${plain[@]}"
says "left: 0 visits"
silent "a text that was put back"
expect 0 run "${plain[@]}"
says "nothing to do"
silent "a run with a text that was put back"
cp "$work/changed.txt" "$work/text.txt"
expect 0 plan --rate 10 "${plain[@]}" --set 'bits=[3,4]' # what is pending was never finished
says "left: 2 visits"
silent "bits and a text that was put back"
finish
