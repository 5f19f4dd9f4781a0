#!/usr/bin/env bash
# What is known is not computed again: texts to which lines are appended behind what is read of them, also by a plan that was made with
# the grown text and after more growth; models and averages under other labels, whose weights and members decide; weights that a folder
# has again. What reads other sequences than before, other weights under an old label, and a text that is edited after the plan was made,
# are found.
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/computed.sh"
need_python h5py numpy

fixed_text "$work/all.txt"
mkdir "$work/first"
cp -r "$quickstart"/trajectory/{tokenizer.json,step000100,step001200} "$work/first"
sed -n '1p;/step000100/p;/step001200/p' "$quickstart/trajectory.csv" >"$work/trajectory.csv"
json_lines() { sed -n "$1" "$work/all.txt" | "$python" -c 'import json, sys; [print(json.dumps({"text": line})) for line in sys.stdin]'; }
json_lines 1,100p >"$work/calibration.jsonl"
json_lines 101,150p >"$work/lines.jsonl"
sed -n 151,250p "$work/all.txt" >"$work/plain.txt"
sed -n 251,260p "$work/all.txt" >"$work/whole.txt"

judge=rtn # label of a method
# sweep TEXTS MODEL AVERAGES [FOLDER]: writes the sweep
lines='{name: lines, text: lines.jsonl, field: text, length: 32, tokens: 128}'
plain='{name: plain, text: plain.txt, length: 32, samples: 3}'
sweep() {
    cat >"$work/sweep.yaml" <<YAML
name: known
results: cube.h5
methods: [{method: rtn, name: $judge, bits: [4], group_size: 64}, {method: gptq, bits: [4], group_size: 64}]
calibration: {text: calibration.jsonl, field: text, length: 32, samples: 4}
evaluation: [$1]
curvature: {sharpness: none, trace: 1, second_order: total, sequences: 1, length: 32}
movement: $judge
models:
  - name: $2
    trajectory: trajectory.csv
    path: "${4:-first}/{checkpoint}"
    tokenizer: first/tokenizer.json
    averages: [$3]
YAML
}
soup='{name: soup, of: [step000100, step001200], weights: [1, 2]}'
mean='{name: mean, window: 2}'
greedy() { echo "{name: $1, of: [step000100, step001200], greedy: {text: plain.txt, length: 32, skip: 8, samples: 2, judge: $judge, bits: 4}}"; }

# nothing WHAT: that was nothing, and a plan says the same
nothing() {
    [ "$computed" = 0 ] && grep -q 'nothing to do' "$work/err" || fail "$1: $computed records: $(cat "$work/err")"
    "$QTRAJ" plan "$work/sweep.yaml" --rate 10 >"$work/out" 2>"$work/plan" || fail "$1: plan: $(cat "$work/plan")"
    grep -q 'left: 0 visits' "$work/out" || fail "$1: the plan: $(cat "$work/out")"
}
append() { json_lines 300,303p | tee -a "$work/lines.jsonl" >>"$work/calibration.jsonl" && sed -n 304,307p "$work/all.txt" >>"$work/plain.txt"; }

# same A B: two cubes, but for what they say of settings, files and keys
same() {
    "$python" "$SOURCE/tests/tools/compare_cubes.py" "$work/$1.h5" "$work/$2.h5" >"$work/differences"
    grep -v -e '^provenance/' -e '/key: ' -e '/recipe: ' -e '^recipe: ' -e ' objects, ' "$work/differences" >"$work/more" && fail "$1 and $2: $(head -n 5 "$work/more")"
}

# --- texts that grow ---

sweep "$lines, $plain" quickstart "$soup, $mean, $(greedy greedy)"
go "from the start" cube
cp "$work/cube.h5" "$work/start.h5"
append
"$QTRAJ" plan "$work/sweep.yaml" --rate 10 >"$work/out" 2>"$work/err" || fail "plan: $(cat "$work/err")"
grep -q 'left: 0 visits' "$work/out" || fail "appended: the plan: $(cat "$work/out" "$work/err")"
[ "$(grep -c 'has changed since the last run, but not what is read of it' "$work/err")" = 3 ] || fail "appended: $(cat "$work/err")"
grep -q 'pending again' "$work/err" && fail "appended: $(cat "$work/err")"
go "appended" cube
nothing "appended"
append
go "appended again" cube
nothing "appended again"
same start cube
sweep "$lines" quickstart "$soup, $mean, $(greedy greedy)"
append
go "without a text, appended again" cube
nothing "without a text"
sweep "$lines, $plain" quickstart "$soup, $mean, $(greedy greedy)"
go "with it again" cube
nothing "with it again"
go "and a bit-width" cube --set 'methods[1].bits=[3,4]'
compared=$computed
rm -f "$work"/fresh.*
go "all of it from the start" fresh --set 'methods[1].bits=[3,4]'
[ "$compared" -lt $((computed / 2)) ] || fail "a bit-width: $compared records of $computed"
same fresh cube
cp "$work/lines.jsonl" "$work/kept.jsonl"
sed -i '2s/"text": "/&x/' "$work/lines.jsonl"
"$QTRAJ" plan "$work/sweep.yaml" --rate 10 2>"$work/err" | grep -q 'left: 5 visits' || fail "edited: the plan does not see it"
grep -q "lines.jsonl: has changed since the last run (.*pending again" "$work/err" || fail "edited: $(cat "$work/err")"
mv "$work/kept.jsonl" "$work/lines.jsonl"
go "put back" cube
nothing "put back"

# What is read to its end, or drawn from all of it, is another text when it grows.
for text in '{name: whole, text: whole.txt, length: 32}' '{name: whole, text: lines.jsonl, field: text, length: 32, documents: 3, draw: 1}'; do
    sweep "$text" quickstart ""
    sed -i '/^movement/d; /^curvature/d' "$work/sweep.yaml"
    go "read whole" whole --only checkpoint=step000100
    sed -n 310,330p "$work/all.txt" >>"$work/whole.txt"
    json_lines 310,400p >>"$work/lines.jsonl"
    go "read whole, appended" whole --only checkpoint=step000100
    [ "$computed" = 3 ] || fail "a text that is read whole: $computed records computed: $(cat "$work/err")"
done

# --- labels ---

sweep "$lines, $plain" other "$soup, $mean, $(greedy greedy)"
go "a renamed model" cube
nothing "a renamed model"
"$python" - "$work/start.h5" "$work/cube.h5" <<'PY' || fail "renamed: other numbers, or the label of before"
import sys, h5py
before, now = (h5py.File(name) for name in sys.argv[1:])
assert [list(c["model"].asstr()) for c in (before, now)] == [["quickstart"], ["other"]]
for name in ("loss", "loss_relative", "baseline_loss", "trace", "movement", "second_order"):
    assert before[name][()].tobytes() == now[name][()].tobytes(), name
PY
judge=nearest
sweep "$lines, $plain" other "{name: mixture, ${soup#*, }, {name: lawa, ${mean#*, }, $(greedy chosen)"
go "renamed averages and judge" cube
nothing "renamed averages"
"$QTRAJ" show "$work/cube.h5" --checkpoint mixture >"$work/out" 2>"$work/err" && grep -q mixture "$work/out" || fail "the new label: $(cat "$work/out" "$work/err")"
go "and a bit-width of the renamed" cube --set 'methods[1].bits=[3,4]'
nothing "a bit-width of the renamed, which was known"

# Another label of other weights is another model.
mkdir "$work/second"
cp -r "$work/first/step000100" "$work/second/step001200"
cp -r "$work/first/step001200" "$work/second/step000100"
cp "$work/sweep.yaml" "$work/renamed.yaml"
sweep "$lines, $plain" third "" second
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" </dev/null
[ $? = 2 ] && grep -q "is another sweep's" "$work/err" || fail "a label of other weights: $(cat "$work/err")"
cp "$work/renamed.yaml" "$work/sweep.yaml"

# The old label, of other weights in another folder beside the renamed model: the two are never mixed.
echo "  - {name: quickstart, trajectory: trajectory.csv, path: \"second/{checkpoint}\", tokenizer: first/tokenizer.json}" >>"$work/sweep.yaml"
go "the old label of other weights" cube
[ "$computed" -gt 0 ] || fail "the old label: nothing was computed"
"$python" - "$work/cube.h5" <<'PY' || fail "two models of exchanged checkpoints"
import sys, h5py
loss = h5py.File(sys.argv[1])["baseline_loss"][()]
assert loss[0, 0].tobytes() == loss[1, 1].tobytes() and loss[0, 1].tobytes() == loss[1, 0].tobytes() != loss[0, 0].tobytes(), loss
PY
go "the same again" cube
nothing "the old label"
mv "$work/renamed.yaml" "$work/sweep.yaml"
go "without it" cube
nothing "without it"

# --- weights that are there again ---

judge=rtn
sweep "$lines" quickstart "$mean"
go "of the first folder" back
cp "$work/back.h5" "$work/before.h5"
sweep "$lines" quickstart "$mean" second
go "of the second" back --adopt
[ "$computed" -gt 0 ] || fail "the second folder: nothing was computed"
cp "$work/back.h5" "$work/after.h5"
for times in 1 2; do
    sweep "$lines" quickstart "$mean"
    go "of the first again, $times" back
    [ "$computed" = 0 ] || fail "the first folder again: $computed records: $(cat "$work/err")"
    same before back
    sweep "$lines" quickstart "$mean" second
    go "of the second again, $times" back
    [ "$computed" = 0 ] || fail "the second folder again: $computed records: $(cat "$work/err")"
    same after back
done
sweep "$lines" quickstart "$mean"
go "of the first, and a bit-width" back --set 'methods[1].bits=[3,4]'
"$QTRAJ" merge "$work/merged.h5" "$work/back.journal" >"$work/out" 2>"$work/err" || fail "merge: $(cat "$work/err")"
go "after merging" merged --set 'methods[1].bits=[3,4]'
[ "$computed" = 0 ] || fail "after merging: $computed records: $(cat "$work/err")"

# --- a text that is edited after the plan was made ---

cat >"$work/stage.sh" <<STAGE
#!/bin/sh
cp -r "$work/first/\$1/." "\$2"
[ ! -e "$work/edit" ] || sed -i '2s/"text": "/&x/' "$work/lines.jsonl"
STAGE
chmod +x "$work/stage.sh"
cp "$work/first/step001200/config.json" "$work/first/config.json"
sed -i '/step000100/d' "$work/trajectory.csv"
sweep "$lines" quickstart ""
sed -i 's|path: .*|path: "staged/{checkpoint}"\n    keep: false\n    stage: [./stage.sh, "{checkpoint}", "{path}"]|; /averages/d; /^movement/d; /^curvature/d' "$work/sweep.yaml"
go "staged" staged
append
touch "$work/edit"
"$QTRAJ" run "$work/sweep.yaml" --set "results=$work/staged.h5" --set 'methods[1].bits=[3,4]' >"$work/out" 2>"$work/err" </dev/null
[ $? = 1 ] && grep -q "lines.jsonl: .*the run was planned" "$work/err" || fail "edited after the plan: $(cat "$work/err")"
finish
