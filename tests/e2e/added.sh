#!/usr/bin/env bash
# A finished sweep that changes: an added text scores what is there on that text alone, an added task likewise, and both give the
# bits of a sweep that had them from the start; a removed text, a renamed label, a moved folder compute nothing. A journal of a
# version whose keys hashed the texts is finished, also after lines were appended to them, and a text can be added to it. Parts and
# merging join scores on different texts.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy

fixed_text "$work/text.txt"
fold -s -w 72 "$quickstart/trajectory/tokenizer.json" | sed -n 100,1200p >"$work/more.txt"
cp -r "$quickstart/trajectory" "$work/trajectory"
sed -n '1p;/step001200/p' "$quickstart/trajectory.csv" >"$work/trajectory.csv"
first='{name: first, text: text.txt, length: 64, skip: 4, samples: 5}'
second='{name: second, text: more.txt, length: 64, samples: 4}'
tasks="{names: [piqa], data: \"$SOURCE/tests/fixtures/tasks/inputs\", shots: 1, limit: 4}"

# sweep TEXTS [LINES]: writes the sweep
sweep() {
    cat >"$work/sweep.yaml" <<YAML
name: added
results: cube.h5
methods: [{method: rtn, bits: [4], group_size: 64}, {method: gptq, bits: [4], group_size: 64, replicates: 2}]
calibration: {text: text.txt, length: 64, samples: 4}
evaluation: [$1]
curvature: {sharpness: none, trace: 1, second_order: total, sequences: 1, length: 64${data-, data: {text: text.txt, length: 64\}}}
models:
  - {name: quickstart, trajectory: trajectory.csv, path: "trajectory/{checkpoint}", tokenizer: trajectory/tokenizer.json}
${2-}
YAML
}

# go WHAT NAME [ARGUMENT ...]: runs the sweep into NAME.h5, says how long it took and what it recorded
go() {
    local before after start
    before=$(kinds "$2")
    start=$(date +%s%3N)
    "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/$2.h5" "${@:3}" >"$work/out" 2>"$work/err" </dev/null || fail "$1: exit code $?: $(cat "$work/err")"
    after=$(kinds "$2")
    echo "$1: $(($(date +%s%3N) - start)) ms; records, scores on texts: $before -> $after"
}

# kinds NAME: results in the journal, and on how many texts they were scored
kinds() {
    local journal=$work/$1.journal
    [ -e "$journal" ] || journal=/dev/null
    echo "$(grep -cE '"type":"(cell|checkpoint|replicate|curvature|task|baseline_task)"' "$journal"), $(grep -oE '"text [0-9a-f]{32}":' "$journal" | wc -l)"
}

# nothing WHAT: the last run had nothing to do
nothing() { grep -q 'nothing to do' "$work/err" || fail "$1: $(cat "$work/err")"; }

# all_done NAME: by status and plan
all_done() {
    "$QTRAJ" status "$work/$1.journal" --exit-code >"$work/out" || fail "$1: status ends with $?: $(cat "$work/out")"
    "$QTRAJ" plan "$work/sweep.yaml" --set "results=$work/$1.h5" --rate 10 >"$work/out" 2>"$work/err"
    grep -q 'left: 0 visits' "$work/out" || fail "$1: the plan: $(cat "$work/out")"
}

sweep "$first, $second"
go "both from the start" both
sweep "$first, $second" "tasks: $tasks"
go "both and a task from the start" whole

# --- added, removed ---

sweep "$first"
go "one text" cube
cp "$work/cube.h5" "$work/one.h5"
cp "$work/cube.h5" "$work/inparts.h5"
cp "$work/cube.journal" "$work/inparts.journal"
sweep "$first, $second"
# A part whose cells are in the journal of the whole sweep knows its scores of an added text when it is started again.
for start in first second; do
    "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/inparts.h5" --part 1/1 2>"$work/err" >/dev/null || fail "part, $start: $(cat "$work/err")"
    grep -q '2 of 2 cells done' "$work/err" || fail "part, $start: $(cat "$work/err")"
done
grep -q 'nothing to do' "$work/err" || fail "a part started again: $(cat "$work/err")"
"$QTRAJ" plan "$work/sweep.yaml" --rate 10 --json >"$work/plan.json" 2>"$work/err" || fail "plan: $(cat "$work/err")"
grep -q '"done": 0' "$work/plan.json" || fail "cells that lack a text count as done: $(grep '"done"' "$work/plan.json")"
"$QTRAJ" plan "$work/sweep.yaml" --rate 10 2>&1 | grep -q '4 scores of finished results on further texts' || fail "the plan of an added text says no scores"
"$QTRAJ" plan "$work/sweep.yaml" --rate 10 2>/dev/null | grep -q '2 cells (\* done 0, + to score on added texts 2, ! failed 0, . pending 0)' ||
    fail "the plan does not tell cells to score from those to do: $("$QTRAJ" plan "$work/sweep.yaml" --rate 10 2>&1)"
go "an added text" cube
grep -q '1 visit, 0 cells to do' "$work/err" && grep -q '4 scores of finished results on further texts' "$work/err" || fail "added: $(cat "$work/err")"
[ "$(grep -c '"type":"cell"' "$work/cube.journal")" = 2 ] || fail "added: cells are scored again"
grep -q '"added":true' "$work/cube.journal" || fail "added: no completion"
compare both cube
all_done cube
sweep "$first, $second" "tasks: $tasks"
go "an added task" cube
grep -q '3 accuracies on tasks to do' "$work/err" && ! grep -q 'scores of' "$work/err" || fail "task: $(cat "$work/err")"
compare whole cube
sweep "$second"
go "a removed text, and the task" cube
nothing "removed"
sweep "$first"
go "the other text" cube
nothing "the other"
compare one cube
sweep "$second, $first"
go "in another order" cube
nothing "order"

# --- labels and places ---

sweep "${first/first/renamed}, $second"
sed -i 's/method: rtn,/method: rtn, name: another,/' "$work/sweep.yaml"
go "renamed labels" cube
nothing "renamed"
"$QTRAJ" show "$work/cube.h5" --dataset renamed --quantizer another >"$work/out" 2>"$work/err" || fail "the new labels: $(cat "$work/err")"
mkdir "$work/moved"
mv "$work"/{sweep.yaml,text.txt,more.txt,trajectory,trajectory.csv} "$work/moved"
ln -s moved/sweep.yaml "$work/sweep.yaml"
sed -i 's/results: .*/results: ..\/cube.h5/' "$work/moved/sweep.yaml"
"$QTRAJ" run "$work/moved/sweep.yaml" >"$work/out" 2>"$work/err" || fail "moved: $(cat "$work/err")"
nothing "moved"
rm "$work/sweep.yaml"
mv "$work"/moved/* "$work"

# --- replicates keep their calibration ---

# The added text holds sequences that the replicate calibrates on; one that had it from the start calibrates on others.
third='{name: third, text: text.txt, length: 64, skip: 9, samples: 90}'
sweep "$first, $third"
"$QTRAJ" plan "$work/sweep.yaml" --rate 10 >"$work/out" 2>"$work/err"
grep -qF ', 1 replicate of them (* done 0, + to score on added texts 1, ! failed 0, . pending 0)' "$work/out" || fail "replicates to score: $(cat "$work/out" "$work/err")"
go "a text that replicates would avoid" cube
go "the same from the start" avoid
"$python" - "$work/cube.h5" "$work/avoid.h5" "$work/one.h5" <<'PY' || fail "replicates: their calibration"
import sys, h5py
cube, avoid, one = (h5py.File(name)["weight_distance_replicate"][()].ravel() for name in sys.argv[1:])
both = lambda x: x[x == x]
assert both(cube) == both(one) and both(cube) != both(avoid), (both(cube), both(one), both(avoid))
PY
grep -q '"drawn":"[0-9a-f]*"' "$work/cube.journal" || fail "replicates: what they avoid"
sweep "$third"
go "without the text that they avoid" cube
grep -q '1 replicate of cells to do' "$work/err" && fail "replicates: made anew though nothing lacks"

# --- a text that cannot be scored ---

echo short >"$work/short.txt"
sweep "$first, {name: short, text: short.txt, length: 64, samples: 4}"
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err"
[ $? = 1 ] || fail "a short text: exit code is not 1: $(cat "$work/err")"
"$QTRAJ" status "$work/cube.journal" >"$work/out"
grep -q 'short' "$work/out" || fail "a short text: status does not say why: $(cat "$work/out")"
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err"
nothing "the short text again"
sweep "$first"
go "without it" cube
nothing "without the short text"
compare one cube

# --- weights that are away ---

sweep "$first, $second, {name: fourth, text: text.txt, length: 64, samples: 1}"
mv "$work/trajectory/step001200" "$work/away"
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err"
[ $? = 1 ] || fail "weights away: exit code is not 1: $(cat "$work/err")"
mv "$work/away" "$work/trajectory/step001200"
go "a text whose weights were away" cube
all_done cube

# --- mixed: a text and a method at once ---

sweep "$first"
sed -i 's/, {method: gptq.*/]/; /^calibration/d' "$work/sweep.yaml"
go "rtn on one text" mixed
sweep "$first, $second"
go "gptq and a text at once" mixed
compare both mixed

# --- weights that were exported are read ---

exported() {
    sweep "$1" 'export: [{out: exports, quantizer: gptq, format: compressed-tensors}, {out: exports, quantizer: rtn}]'
    sed -i '/^curvature/d; s/, replicates: 2//' "$work/sweep.yaml"
}
exported "$first"
go "exported" read
exported "$first, $second"
go "a text added to exported cells" read
grep -q '2 cells of them are read' "$work/err" || fail "exports are not read: $(cat "$work/err")"
go "the same from the start, without exports" quantized --set 'export=[]'
"$python" - "$work/read.h5" "$work/quantized.h5" <<'PY' || fail "exported: other numbers than quantized"
import sys, h5py
a, b = (h5py.File(name) for name in sys.argv[1:])
for name in ("loss", "loss_relative", "kl_divergence"):
    assert a[name][()].tobytes() == b[name][()].tobytes(), name
PY
# Folders of other cells or weights are not read.
sed -i 's/"weights": "./&x/' "$work/exports/quickstart/step001200/gptq-4bit/qtraj.json"
echo '{}' >"$work/exports/quickstart/step001200/rtn-4bit/qtraj.json"
exported "$first, $second, {name: third, text: more.txt, length: 64, samples: 1}"
go "a text, and folders that others wrote" read
grep -q '3 scores of' "$work/err" && ! grep -q 'read from' "$work/err" || fail "folders of other weights: $(cat "$work/err")"

# --- results on different texts, merged ---

sweep "$second"
go "the other text alone" other
sweep "$first"
go "one text alone" alone
"$QTRAJ" merge "$work/merged.h5" "$work/other.journal" "$work/alone.journal" >"$work/out" 2>"$work/err" || fail "merge: $(cat "$work/err")"
sweep "$first, $second"
go "both, after merging" merged
nothing "merged"
all_done merged
compare both merged

# --- a journal of an earlier version ---

# With the kernels of the CPU that recorded it: other orders of sums decide other near ties of GPTQ.
export OPENBLAS_CORETYPE=Haswell ONEDNN_MAX_CPU_ISA=AVX2 QTRAJ_KERNELS=avx2
data= # it has none
sweep "$first, $second"
gzip -dc "$SOURCE/tests/fixtures/results/added.journal.gz" >"$work/old.journal"
go "a journal of an earlier version" old
nothing "old"
all_done old
cp "$work/text.txt" "$work/text.then" && cp "$work/more.txt" "$work/more.then"
sed -n 5,20p "$work/more.txt" >>"$work/text.txt"
sed -n 5,20p "$work/text.txt" >>"$work/more.txt"
go "texts that have grown since" old
nothing "old, grown"
all_done old
mv "$work/text.then" "$work/text.txt" && mv "$work/more.then" "$work/more.txt"
# Of its curvature, whose options an earlier version wrote, a density takes the trace.
QTRAJ_TRACE=visit go "a density added to it" old --set curvature.density=2
grep -q 'curvature: 2 products' "$work/err" || fail "old, density: $(grep -E 'products|pending' "$work/err")"
sweep "$first"
go "a text removed from it" old
nothing "old, removed"
sweep "$first, $second, {name: third, text: more.txt, length: 64, skip: 4, samples: 2}"
go "a text added to it" old
grep -q '1 visit, 0 cells to do' "$work/err" || fail "old, added: $(cat "$work/err")"
all_done old
go "three texts" three
compare three old --relative 1e-6 # its libraries may be others
finish
