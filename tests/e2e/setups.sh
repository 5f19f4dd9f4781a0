#!/usr/bin/env bash
# Set-ups that would mislead speak: sequences longer than the model's positions, evaluation sequences that also calibrate,
# mixings that the model's dimensions do not have, patterns of --only that match nothing. And a trajectory table with columns of the user's own, from the journal to the cube.
. "$SOURCE/tests/tools/lib.sh"

quickstart_sweep '1p;/step001200/p' <<SWEEP
name: setups
results: $work/cube.h5
bits: [4]
methods: [{method: rtn, group_size: 64}, {method: gptq, group_size: 64}]
calibration: {text: $work/text.txt, samples: 2}
evaluation: [{name: own, text: $work/text.txt, samples: 2, skip: 2}, {name: mine, text: $work/text.txt, length: 300, samples: 4, skip: 4}]
SWEEP

# qtraj ARGUMENT ...: output in $work/out and $work/err
qtraj() { timeout 120 "$QTRAJ" "$@" >"$work/out" 2>"$work/err"; }
# expect CODE TEXT ARGUMENT ...: the exit code, and a text on standard error ("": no warning)
expect() {
    local code=$1 text=$2
    shift 2
    qtraj "$@"
    local got=$?
    [ $got = "$code" ] || fail "$*: exit code $got: $(cat "$work/err")"
    if [ -n "$text" ]; then
        grep -qF -- "$text" "$work/err" || fail "$*: expected $text: $(cat "$work/err")"
    else
        ! grep -q warning "$work/err" || fail "$*: $(cat "$work/err")"
    fi
}

# The model has 1024 positions, which is what length stands for. The second text's blocks 4 to 7 of 300 tokens lie in the
# 2048 that calibrate, but for most of the last.
expect 0 "quickstart: length auto is 1024 tokens, the model's positions" plan "$work/sweep.yaml"
expect 0 "" plan "$work/sweep.yaml" --set 'methods=[{method: rtn}]' --set calibration=null --set 'evaluation[0].length=300'
grep -q "length auto" "$work/err" && fail "no text has the length auto: $(cat "$work/err")"
expect 0 "3 of 4 evaluation sequences also calibrate (mine)" plan "$work/sweep.yaml"
grep -q "calibrate (own)" "$work/err" && fail "the first text does not calibrate: $(cat "$work/err")"
expect 0 "" plan "$work/sweep.yaml" --set 'evaluation[1].skip=8'
# A text with fewer sequences than were asked for: in the plan, a run, and the records of cells that calibrate.
head -c 20000 "$work/text.txt" >"$work/short.txt"
short=(--set "calibration.text=$work/short.txt" --set calibration.samples=100000 --set calibration.length=300 --set 'evaluation[1].skip=40')
few='where samples: 100000 asks for more than the text gives'
expect 0 "quickstart: calibration: " plan "$work/sweep.yaml" "${short[@]}"
number=$(sed -n "s/.*quickstart: calibration: \([0-9]*\) sequences, $few.*/\1/p" "$work/err")
[ "${number:-0}" -gt 5 ] || fail "few: $(cat "$work/err")"
expect 0 "" plan "$work/sweep.yaml" "${short[@]}" --set calibration.samples=5
expect 0 "" plan "$work/sweep.yaml" "${short[@]}" --set calibration.tokens=900
expect 0 "sequences, $few" plan "$work/sweep.yaml" --only quantizer=rtn --set 'evaluation[0].samples=100000' --set 'evaluation[1].skip=8'
expect 0 "$few" run "$work/sweep.yaml" "${short[@]}" --set "results=$work/few.h5" --set 'evaluation=[{name: own, text: '"$work"'/text.txt, length: 64, samples: 2, skip: 400}]'
[ "$(grep -o '"calibration_sequences":[0-9]*' "$work/few.journal")" = "\"calibration_sequences\":$number" ] || fail "few: $(grep -o '"calibration_seq[^,]*' "$work/few.journal")"
long="longer than the model's 1024 positions, up to 1500 tokens"
for command in plan run; do
    expect 0 "quickstart: evaluation own: 2 of 2 sequences are $long" $command "$work/sweep.yaml" --only quantizer=rtn \
        --set 'evaluation[0].length=1500' --set 'evaluation[1].skip=8' --set "results=$work/long.h5"
    [ "$(grep -c 'longer than' "$work/err")" = 1 ] || fail "$command: $(cat "$work/err")"
done
expect 0 "calibration: 2 of 2 sequences are $long" plan "$work/sweep.yaml" --set calibration.length=1500 --set 'evaluation[1].skip=20'
expect 0 "curvature: 1 of 1 sequences are $long" plan "$work/sweep.yaml" --set 'evaluation[1].skip=8' \
    --set "curvature={trace: 2, sequences: 1, data: {text: $work/text.txt, length: 1500}}"
one=("$quickstart/trajectory/step001200" --tokenizer "$quickstart/trajectory/tokenizer.json")
head -c 20000 "$work/text.txt" >"$work/short.txt"
expect 0 "$long" eval "${one[@]}" --text "$work/short.txt" --length 1500 --samples 1
expect 0 "" eval "${one[@]}" --text "$work/short.txt" --samples 1
grep -q ' 1023 tokens scored' "$work/out" || fail "eval: $(cat "$work/out")"
expect 0 "$long" curvature "${one[@]}" --text "$work/short.txt" --length 1500 --samples 1
expect 0 "2 of 3 evaluation sequences also calibrate" quantize "${one[@]}" --method gptq --bits 4 --group-size 64 \
    --length 100 --calibration-text "$work/short.txt" --calibration-samples 2 --evaluation-text "$work/short.txt" --evaluation-samples 3

# A group_size that exceeds a row is the whole row; one that does not divide it leaves a shorter last group: 128 or 384 columns.
distances() {
    qtraj quantize "$quickstart/trajectory/step001200" --bits 3 --method "$1" --group-size "$2" --json
    "$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); print(d["bits_per_weight"], [l["squared_distance"] for l in d["layers"]])' "$work/out"
}
need_python json
[ "$(distances rtn 1000)" = "$(distances rtn -1)" ] || fail "rtn: a group of more than a row: $(distances rtn 1000)"
[ "$(distances rtn 100)" != "$(distances rtn 128)" ] || fail "rtn: groups of 100 columns"
[ "$(distances hqq 1000)" != "$(distances hqq -1)" ] || fail "hqq: groups do not cross rows"

# What plan knows that a run would fail at is listed: exit code 1, or 2 if nothing can run.
echo "too short" >"$work/few.txt"
expect 2 "$work/none.txt: No such file or directory; a run refuses to start" plan "$work/sweep.yaml" --set "evaluation[0].text=$work/none.txt" \
    --set "calibration.text=$work/neither.txt" --set 'evaluation[1].tokens=100000000' --set "models[0].path=$work/no/{checkpoint}"
grep -qF "$work/neither.txt: No such file" "$work/err" && grep -qF "quickstart step001200 will fail: $work/no/step001200: no such checkpoint" "$work/err" ||
    fail "not all faults: $(cat "$work/err")"
expect 2 "$work/none.json: no such tokenizer; a run refuses to start" plan "$work/sweep.yaml" --set "models[0].tokenizer=$work/none.json"
expect 2 "its cells will fail: $work/few.txt: no sequence is left" plan "$work/sweep.yaml" --set "evaluation[0].text=$work/few.txt"
expect 1 "its curvature will fail: $work/few.txt: no sequence is left" plan "$work/sweep.yaml" --set "curvature={trace: 2, data: {text: $work/few.txt}}"
expect 2 "1 of 1 visit left would fail" plan "$work/sweep.yaml" --set run.memory_per_rank=1M
# A mixing that no Hadamard matrix gives: 184 = 8 * 23 inputs of the MLP's last linear.
cp -r "$quickstart/trajectory" "$work/two"
mkdir -p "$work/odd"
cp -r "$work/two/step001200" "$work/odd/step001200"
sed -i 's/"intermediate_size": *[0-9]*/"intermediate_size": 184/' "$work/odd/step001200/config.json"
mixed='methods=[{method: rtn, group_size: 64}, {name: mixed, method: rtn, mixing: hadamard}]'
expect 2 "quickstart: its cells of mixed will fail: model.layers.0.mlp.down_proj.weight: mixing: no Hadamard matrix of order 184" \
    plan "$work/sweep.yaml" --set "models[0].path=$work/odd/{checkpoint}" --set "$mixed" --set 'evaluation[1].skip=8'
grep -q "quickstart step001200 will fail: $work/odd/step001200: tensor model.layers.0.mlp" "$work/err" || fail "a shape: $(cat "$work/err")"
expect 0 "" plan "$work/sweep.yaml" --set "$mixed" --set 'evaluation[1].skip=8'
# Checkpoints without a tokenizer, in one line a model; a run says so before it computes.
mkdir "$work/bare"
cp -r "$quickstart"/trajectory/step00{0100,1200} "$work/bare"
cp "$work/trajectory.csv" "$work/one.csv"
sed -n '1p;/step000100/p;/step001200/p' "$quickstart/trajectory.csv" >"$work/trajectory.csv"
bare=(--set "models[0].path=$work/bare/{checkpoint}" --set 'models[0].tokenizer=null' --set 'evaluation[1].skip=8' --set 'methods=[{method: rtn}]'
    --set "results=$work/bare.h5")
lacking="visits will fail: neither $work/bare/step001200 nor the folder above has a tokenizer.json"
expect 2 "of its 2 visits will fail: neither $work/bare/step000100 nor" plan "$work/sweep.yaml" "${bare[@]}"
[ "$(grep -c "has a tokenizer.json" "$work/err")" = 1 ] && grep -q "2 of 2 visits left would fail" "$work/err" || fail "plan: $(cat "$work/err")"
cp "$quickstart/trajectory/tokenizer.json" "$work/bare/step000100"
expect 1 "1 of its 2 $lacking" run "$work/sweep.yaml" "${bare[@]}"
expect 2 "1 fault" slurm "$work/sweep.yaml" --node-cores 2 --node-memory 4 --rate 10 "${bare[@]}" --retry failed
mv "$work/bare/step000100/tokenizer.json" "$work/bare"
expect 0 "" plan "$work/sweep.yaml" "${bare[@]}"
# A disk too small for the results.
mkdir "$work/tiny"
if mount -t tmpfs -o size=64k none "$work/tiny" 2>/dev/null; then
    expect 1 "are free on the disk of $work/tiny/cube.h5, but cube and journal need about" plan "$work/sweep.yaml" "${bare[@]}" --set "results=$work/tiny/cube.h5"
    umount "$work/tiny"
fi
mv "$work/one.csv" "$work/trajectory.csv"
# One of two checkpoints has no weights, then both, then one is an average of them.
cp "$work/trajectory.csv" "$work/one.csv"
sed -n '1p;/step001100/p;/step001200/p' "$quickstart/trajectory.csv" >"$work/trajectory.csv"
two=(--set "models[0].path=$work/two/{checkpoint}" --set 'evaluation[1].skip=8')
rm "$work"/two/step001100/model.safetensors
expect 1 "quickstart step001100 will fail: $work/two/step001100: " plan "$work/sweep.yaml" "${two[@]}"
grep -q "1 of 2 visits left would fail" "$work/err" || fail "plan: $(cat "$work/err")"
qtraj plan "$work/sweep.yaml" "${two[@]}" --json
[ $? = 1 ] && grep -q '"quickstart step001100 will fail: ' "$work/out" || fail "--json: $(cat "$work/out")"
expect 1 "2 of 3 visits left would fail" plan "$work/sweep.yaml" "${two[@]}" --set 'models[0].averages=[{name: soup, of: [step001100, step001200]}]'
expect 0 "" plan "$work/sweep.yaml" "${two[@]}" --only checkpoint=step001200
expect 2 "quickstart step001100 will fail: $work/none/step001100: no such checkpoint (" plan "$work/sweep.yaml" "${two[@]}" \
    --set "models[0].path=$work/none/{checkpoint}" --set 'models[0].averages=[{name: soup, of: [step001100, step001200]}, {name: two, window: 2}]'
[ "$(grep -c "no such checkpoint" "$work/err")" = 1 ] && grep -q "models\[0\].path) (3 more checkpoints likewise)$" "$work/err" ||
    fail "a wrong path: $(cat "$work/err")"
rm -r "$work/two/step001200"
expect 2 "2 of 2 visits left would fail" plan "$work/sweep.yaml" "${two[@]}"
mkdir "$work/beside" && cp "$quickstart"/trajectory/{tokenizer.json,step000100/config.json} "$work/beside"
expect 0 "" plan "$work/sweep.yaml" "${two[@]}" --set 'evaluation[1].skip=40' --set 'models[0].stage=[cp, "{path}"]' \
    --set "models[0].path=$work/fetched/{checkpoint}" --set "models[0].tokenizer=$work/beside/tokenizer.json"
mv "$work/one.csv" "$work/trajectory.csv"
expect 2 "$work/no/step001200: no such checkpoint" plan "$work/sweep.yaml" --set "models[0].path=$work/no/{checkpoint}"
grep -qF "quickstart: no config.json in $work/no/step" "$work/out" || fail "plan: $(cat "$work/out")"
grep -q " s on one worker" "$work/out" && fail "a total of unknown costs: $(cat "$work/out")"
grep -qE "^left: 1 visits? of unknown cost$" "$work/out" || fail "plan: $(cat "$work/out")"

# The same of several models is said once, with their number.
cp "$work/sweep.yaml" "$work/one.yaml"
printf '  - {name: %s, trajectory: trajectory.csv, path: "%s/trajectory/{checkpoint}", tokenizer: "%s/trajectory/tokenizer.json"}\n' \
    second "$quickstart" "$quickstart" third "$quickstart" "$quickstart" >>"$work/sweep.yaml"
once() { [ "$(grep -c -- "$1" "$work/err")" = 1 ] || fail "not once: $1: $(cat "$work/err")"; }
echo "too short" >"$work/few.txt"
expect 2 "quickstart: its cells will fail: $work/few.txt: no sequence is left" plan "$work/sweep.yaml" --set "evaluation[0].text=$work/few.txt"
once "no sequence is left.* (2 more models likewise)$"
grep -q "3 of 3 visits left would fail" "$work/err" || fail "plan: $(cat "$work/err")"
qtraj plan "$work/sweep.yaml" --set "curvature={trace: 2, data: {text: $work/few.txt}}" --json
once "its curvature will fail: .* (2 more models likewise)$"
grep -q '"quickstart: its curvature will fail: .* (2 more models likewise)"' "$work/out" || fail "--json: $(cat "$work/out")"
expect 2 "3 of 3 visits left would fail" plan "$work/sweep.yaml" --set run.memory_per_rank=1M
once "quickstart: its visits will fail: .* (2 more models likewise)$"
expect 0 "" plan "$work/sweep.yaml" --set 'evaluation[1].skip=8'
once "quickstart: length auto is 1024 tokens, the model's positions (2 more models likewise)$"
expect 0 "sequences are $long" plan "$work/sweep.yaml" --set 'evaluation[0].length=1500' --set 'evaluation[1].skip=8'
once "quickstart: evaluation own: .* (2 more models likewise)$"
mv "$work/one.yaml" "$work/sweep.yaml"

# A text that has changed says why its cells are pending, and a checkpoint whose file was cut is named.
cp -r "$quickstart/trajectory/step001200" "$work/step001200"
cut=(--set "models[0].path=$work/{checkpoint}" --set "results=$work/changed.h5" --set 'methods=[{method: rtn}]' --set calibration=null
    --set "evaluation=[{name: few, text: $work/few.txt, length: 32}]")
head -c 3000 "$work/text.txt" >"$work/few.txt"
expect 0 "" run "$work/sweep.yaml" "${cut[@]}"
head -c 4000 "$work/text.txt" >"$work/few.txt"
expect 0 "$work/few.txt: has changed since the last run" plan "$work/sweep.yaml" "${cut[@]}"
truncate -s -100 "$work/step001200/model.safetensors"
expect 2 "quickstart step001200 will fail: $work/step001200/model.safetensors" plan "$work/sweep.yaml" "${cut[@]}"
expect 1 "$work/few.txt: has changed since the last run" run "$work/sweep.yaml" "${cut[@]}"
qtraj status "$work/changed.h5"
grep -q "has changed" "$work/out" && fail "nothing is pending: $(cat "$work/out")"

# patterns
expect 2 "--only bits=9: matches none of the sweep's bits; there are: 4" run "$work/sweep.yaml" --redo --only bits=9
expect 2 "--only bits=9: matches none of the sweep's bits; there are: 4" plan "$work/sweep.yaml" --only bits=9
expect 2 "quantizers, did you mean gptq?" run "$work/sweep.yaml" --only model=quickstart --only quantizer=gtpq
[ -e "$work/cube.journal" ] && fail "a pattern that matches nothing left a journal"

# columns
printf 'checkpoint,lr,batch_size,note\nstep001100,1e-3,512,\nstep001200,5e-4,,"a, b"\n' >"$work/trajectory.csv"
small=(--set 'methods=[{method: rtn}]' --set 'evaluation[1].skip=8' --set 'evaluation[1].samples=1' --set 'evaluation[0].length=64')
expect 0 "" run "$work/sweep.yaml" "${small[@]}"
"$QTRAJ" rebuild "$work/again.h5" "$work/cube.journal" >"$work/out" 2>"$work/err" || fail "rebuild: $(cat "$work/err")"
for cube in cube again; do
    "$QTRAJ" show "$work/$cube.h5" --csv --dataset own >"$work/rows" 2>"$work/err" || fail "show: $(cat "$work/err")"
    head -n 1 "$work/rows" | grep -q 'learning_rate,.*,batch_size,note,' || fail "$cube: $(head -n 1 "$work/rows")"
    grep -q '^quickstart,step001100,,,0.001,.*,512,,4,rtn' "$work/rows" || fail "$cube: $(cut -c 1-200 "$work/rows")"
    grep -q '^quickstart,step001200,,,0.000[45][0-9]*,.*,,"a, b",4,rtn' "$work/rows" || fail "$cube: $(cut -c 1-200 "$work/rows")"
done
for name in loss seconds cells layers branch_of row; do
    printf 'checkpoint,lr,%s\nstep001200,1,2\n' "$name" >"$work/trajectory.csv"
    expect 2 "trajectory.csv:1: field 3: $name: the cube has a variable of this name already" plan "$work/sweep.yaml"
done
finish
