#!/usr/bin/env bash
# qtraj watch beside the training of what it measures, killed once: the cube of one run at the end, bit for bit; checkpoints that are
# half written; limits.
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/train.sh"
need_python h5py numpy
export OMPI_MCA_btl_vader_backing_directory=$work
cd "$work" || exit 2

cat >sweep.yaml <<YAML
name: growing
results: watched.h5
models:
  - name: tiny
    trajectory: out/tiny/trajectory.csv
    path: "out/tiny/{checkpoint}"
    averages: [{name: lawa, window: 2}, {name: soup, of: [step000012, cool/step000014]}]
  - {name: cool, branch_of: tiny, trajectory: out/tiny-cool-9/trajectory.csv, path: "out/tiny-cool-9/{checkpoint}"}
bits: [2, 4]
methods: [{method: rtn}]
evaluation: [{name: own, text: text.jsonl, field: text, length: 16}]
YAML
# is_done N RESULTS: the journal has so many cells
is_done() { [ "$(grep -c '"type":"cell"' "$2.journal")" -ge "$1" ]; }
# watch_it ARGUMENT ...: in its own session, output in $work/err
watch_it() { setsid "$QTRAJ" watch -n 2 "$@" --every 1s >out.txt 2>err </dev/null & }

# Nothing is there; then the training writes tables and folders while it is watched.
watch_it sweep.yaml --idle 600s
session=$!
sleep 1.5
[ ! -e watched.journal ] || fail "ran without checkpoints: $(cat err)"
runs_file runs.yaml
"$QTRAJ" train runs.yaml --until 600s >train.txt 2>&1 &
training=$!
wait_for 120 is_done 2 watched
# shellcheck disable=SC2046
kill -9 $(ps -o pid= -s $session) 2>/dev/null
wait $session 2>/dev/null
while ps -o stat= -s $session | grep -qv Z; do sleep 0.05; done
wait $training || fail "train: $(cat train.txt)"

"$QTRAJ" watch sweep.yaml -n 2 --every 1s --idle 2s 2>err || fail "idle: exit code $?: $(cat err)"
grep -q "nothing new for 2s" err || fail "idle: $(cat err)"

# A checkpoint that is half written waits, as does what comes behind it.
mv out/tiny/step000018 away && mkdir out/tiny/step000018
head -c 1000 away/model.safetensors >out/tiny/step000018/model.safetensors
cp away/config.json out/tiny/step000018
watch_it sweep.yaml --set results=half.h5 --idle 600s
session=$!
# 2 of the main run, 2 of the branch, a window and the soup, at two widths
wait_for 120 is_done 12 half
cp away/model.safetensors out/tiny/step000018
sleep 2
grep -q step000018 half.journal && fail "took a checkpoint that is not whole"
grep -q lawa@step000012 half.journal || fail "no average: $(cat err)"
cp away/* out/tiny/step000018
wait_for 120 is_done 20 half
kill -TERM $session
wait $session
code=$?
[ $code = 3 ] || fail "a signal: exit code $code: $(cat err)"
"$QTRAJ" run sweep.yaml --set results=half.h5 2>err || fail "after a signal: $(cat err)" # renews the cube
"$QTRAJ" run sweep.yaml --set results=whole.h5 2>err || fail "one run: $(cat err)"
compare whole watched
compare whole half
# The training's curves are in the cube, and in one that is made of cubes or again of the journal.
"$python" - whole.h5 <<'PY' || fail "curves"
import sys, h5py, numpy as np
curves = h5py.File(sys.argv[1])["training_curves"]
model, step, validation = curves["model"].asstr()[:], curves["step"][:], curves["validation_loss"][:]
assert list(step) == [*range(1, 25), *range(10, 15)] and list(model) == 24 * ["tiny"] + 5 * ["cool"], (model, step)
assert set(step[:24][np.isfinite(validation[:24])]) == {6, 12, 18, 24} and np.isfinite(curves["training_loss"][:]).all(), validation
PY
cp whole.h5 copy.h5
"$QTRAJ" rebuild whole.h5 >out.txt 2>err || fail "rebuild: $(cat err)"
"$QTRAJ" merge merged.h5 copy.h5 >out.txt 2>err || fail "merge: $(cat err)"
compare copy whole
compare copy merged
[ "$(grep -c '"status":"failed"' watched.journal)" = 0 ] || fail "cells failed"
[ "$(sort watched.journal | grep '"type":"cell"' | grep -o '"key":"[0-9a-f]*"' | sort | uniq -d)" = "" ] || fail "computed twice"

# Limits, and what is refused.
"$QTRAJ" watch sweep.yaml -n 2 --every 1s --idle 600s --limit 4=1000 --limit 2=-100 2>err
code=$?
[ $code = 5 ] || fail "limit: exit code $code: $(cat err)"
tail -n 1 err | grep -qE "error: tiny step0000..: rtn at 2 bits has a loss .* % above that of full precision on own, more than the limit of -100 %" ||
    fail "limit: $(cat err)"
refused() {
    "$QTRAJ" watch sweep.yaml "${@:2}" 2>err
    [ $? = 2 ] && grep -qF -- "$1" err || fail "${*:2}: $(cat err)"
}
refused "--limit 3: expected BITS=PERCENT" --limit 3
refused "--part: the parts of a sweep that grows" --part 1/2
refused "no model of the sweep is called tny" --set 'models[1].branch_of=tny'
"$QTRAJ" run sweep.yaml --so-far --set 'models=[{name: a, trajectory: none.csv, path: "x/{checkpoint}"}]' 2>err
[ $? = 2 ] && grep -q "no checkpoint of the sweep is there yet" err || fail "nothing there: $(cat err)"
finish
