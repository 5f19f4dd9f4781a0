#!/usr/bin/env bash
# What a run says while it goes on: its progress lines, each failure once, and the same status from the cube, the journal and the
# sweep file at every moment; then the exit codes of `qtraj status --exit-code`.
. "$SOURCE/tests/tools/lib.sh"

quickstart_sweep '1,6p' <<YAML
name: progress
results: r.h5
bits: [2, 3, 4, 8]
methods: [{method: rtn, group_size: 64}, {method: gptq, group_size: 64}]
calibration: {text: text.txt, length: 256, samples: 16}
evaluation: [{name: own, text: text.txt, length: 256, skip: 16, samples: 16}]
curvature: {sharpness: lanczos, products: 4, sequences: 2, length: 128}
YAML
# one of the checkpoints has a damaged file
cp -r "$quickstart/trajectory" "$work/models"
broken=$(sed -n 3p "$work/trajectory.csv" | cut -d, -f1)
truncate -s 5000 "$work/models/$broken/model.safetensors"
sed -i "s|$quickstart/trajectory/|$work/models/|g" "$work/sweep.yaml"

status() { "$QTRAJ" status "$@" 2>&1; }

status --exit-code "$work/sweep.yaml" >"$work/out" && fail "status before any run: exit code 0"
grep -q 'nothing has been run yet' "$work/out" || fail "before any run: $(cat "$work/out")"
# Jobs of these results that wait are named; squeue is a stand-in here.
mkdir "$work/bin"
printf "#!/bin/bash\necho '12 13 PENDING qtraj %s'\necho '15 15 RUNNING qtraj %s'\necho '16 16 PENDING qtraj %s.other'\n" "$(realpath "$work")"/r.h5{,,} >"$work/bin/squeue"
chmod +x "$work/bin/squeue"
submitted() { PATH=$work/bin:$PATH "$QTRAJ" status "$work/sweep.yaml" "$@" >"$work/out" 2>&1; }
submitted && grep -q 'submitted, no results yet; jobs that wait or run: 12 15 (' "$work/out" || fail "submitted: $(cat "$work/out")"
submitted --json --exit-code
[ $? = 3 ] && grep -q '"jobs": "12 15",$' "$work/out" && grep -q '"state": "submitted"$' "$work/out" || fail "submitted, JSON: $(cat "$work/out")"

# Polls the three forms until the run ends. All ranks are stopped for each poll, so that the forms are asked at one moment.
timeout 800 mpirun -n 3 "$QTRAJ" run "$work/sweep.yaml" >"$work/run.out" 2>"$work/run.err" </dev/null &
run=$!
polls=0 running=0
ranks() { pgrep -f "^$QTRAJ run $work/sweep.yaml"; }
until [ -s "$work/r.journal" ] || ! kill -0 $run 2>/dev/null; do sleep 0.05; done
while kill -0 $run 2>/dev/null && [ $polls -lt 20 ]; do
    # shellcheck disable=SC2046
    kill -STOP $(ranks) 2>/dev/null
    locked=$(ls "$work/r.journal.lock" 2>/dev/null)
    for form in "" --json; do
        a=$(status $form "$work/r.h5") && b=$(status $form "$work/r.journal") && c=$(status $form "$work/sweep.yaml")
        { [ "$a" = "$b" ] && [ "$b" = "$c" ]; } || fail "cube: $a; journal: $b; sweep file: $c"
        polls=$((polls + 1))
        case $form$a in *"running on $(hostname), pid "*) running=$((running + 1)) ;; esac
    done
    "$QTRAJ" status --exit-code "$work/r.h5" >/dev/null 2>&1
    code=$?
    [ $code = 3 ] || [ -z "$locked" ] || fail "exit code of a run that goes on: $code"
    # shellcheck disable=SC2046
    kill -CONT $(ranks) 2>/dev/null
    sleep 0.5
done
wait $run
code=$?
[ $code = 1 ] || fail "exit code $code: $(cat "$work/run.err")"
[ $running -ge 1 ] || fail "$polls polls, none of them of a run"
echo "$polls polls, $running of a run"

for form in r.h5 r.journal sweep.yaml; do
    status --exit-code "$work/$form" >"$work/out"
    code=$?
    [ $code = 1 ] || fail "$form: exit code $code where cells failed"
    tail -n 1 "$work/out" | grep -q '^done, but in part failed$' || fail "$form: $(tail -n 2 "$work/out")"
done

# Its lines: counts that never go back, what is running, a time that is left until the end.
python3 - "$work/run.err" <<'PYTHON' || failures=$((failures + 1))
import re, sys
text = open(sys.argv[1]).read()
line = re.compile(r"^(\d+)/40 cells, (\d+)/5 curvature, (\d+) failed, (.*) spent(?:, (.*) left(?:; running: (.*))?)?$", re.M)
found = line.findall(text)
assert len(found) >= 2, text
counts = [tuple(map(int, f[:3])) for f in found]
assert counts == sorted(counts) and counts[-1] == (32, 4, 9), counts  # failures are not done
# between two visits nothing may be running
hands = [f[5] for f in found[:-1] if f[5]]
assert all(f[4] for f in found[:-1]) and hands and all(re.match(r"quickstart step\d+ \(.*\d+s\)", h) for h in hands), found
assert not found[-1][4], "the last line says what is left"
named = [l for l in text.splitlines() if l.startswith("failed: ")]
# one line a visit; whether the checkpoint takes one visit or two depends on the speed of the ranks
every = " ".join(named)
assert all("model.safetensors" in n for n in named), named
assert all(every.count(cell) == 1 for cell in ("rtn 2", "gptq 3", "gptq 8", "curvature")), named
PYTHON

# Nothing to do: no progress.
launch 60 3 run "$work/sweep.yaml"
grep -q 'spent' "$work/err" && fail "progress of nothing: $(cat "$work/err")"

# Some cells are missing, then none.
quickstart_sweep '1,3p' <<YAML
name: stopped
results: s.h5
bits: [2, 3, 4, 8]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: own, text: text.txt, length: 256, samples: 10}]
YAML
cp "$work/sweep.yaml" "$work/whole.yaml"
launch 60 1 run "$work/whole.yaml" --only bits=2 || fail "exit code $?: $(cat "$work/err")"
status --exit-code "$work/whole.yaml" >"$work/out"
code=$?
[ $code = 3 ] || fail "cells are pending: exit code $code"
tail -n 1 "$work/out" | grep -q '^stopped; ' || fail "pending: $(tail -n 2 "$work/out")"
# A job that waits goes on from there.
printf "#!/bin/bash\necho '21 21 PENDING qtraj %s'\n" "$(realpath "$work")/s.h5" >"$work/bin/squeue"
PATH=$work/bin:$PATH "$QTRAJ" status "$work/whole.yaml" >"$work/out"
[ "$(tail -n 2 "$work/out")" = "stopped
Slurm jobs that wait or run: 21 (squeue says when they start)" ] || fail "a job waits: $(cat "$work/out")"
PATH=$work/bin:$PATH "$QTRAJ" status --json "$work/s.h5" | tr -d ' \n' | grep -q '"run":{"state":"stopped","jobs":"21"}' || fail "a job waits, JSON"
launch 60 1 run "$work/whole.yaml" || fail "exit code $?: $(cat "$work/err")"
grep -q 'cells, 0 failed, .*s spent$' "$work/err" || fail "a single process: $(cat "$work/err")"
status --exit-code "$work/whole.yaml" >"$work/out" || fail "all done: exit code $?"
[ "$(tail -n 1 "$work/out")" = "done" ] || fail "all done: $(tail -n 2 "$work/out")"
status "$work/whole.yaml" 2>&1 | grep -q "changed after" && fail "an unchanged sweep file is called changed"
touch -d '+5 seconds' "$work/whole.yaml"
status "$work/whole.yaml" 2>&1 | grep -q "whole.yaml: changed after its results were planned" || fail "a newer sweep file is not told of"
finish
