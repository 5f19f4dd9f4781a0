#!/usr/bin/env bash
# Every kind of bad input: exit code, one error line that names file and position, no hang, no other result lost.
. "$SOURCE/tests/tools/lib.sh"
need_python json

trajectory=$SOURCE/configs/quickstart/trajectory
own_text "$work/text.txt"

# write_sweep [NAME=TEXT] ...: writes a small valid sweep with some parts replaced.
write_sweep() {
    local step=0 extra='' bits='[3]' methods='[{method: rtn, group_size: 64}]' text=text.txt checkpoints=good "$@"
    {
        echo "checkpoint,step,tokens,learning_rate,phase"
        for name in $checkpoints; do echo "$name,$((step += 1)),1,0.1,stable"; done
    } >"$work/trajectory.csv"
    cat >"$work/sweep.yaml" <<YAML
name: bad
results: bad.h5
models:
  - name: small
    trajectory: trajectory.csv
    path: "{checkpoint}"
    tokenizer: $trajectory/tokenizer.json
bits: $bits
methods: $methods
$([[ $methods != *gptq* ]] || echo "calibration: {text: $text, length: 64, samples: 4}")
evaluation:
  - {name: own, text: $text, length: 64, skip: 4, samples: 4}
$extra
YAML
}

# expect NAME CODE PATTERN ... : checks the last command: its exit code, and exactly one error line that matches every
# pattern.
expect() {
    local name=$1 code=$2 got=$status lines pattern
    shift 2
    [ "$got" = "$code" ] || fail "$name: exit code $got, expected $code"
    lines=$(grep 'error:' "$work/err" | grep -v 'error: stopped;')
    [ "$(printf '%s' "$lines" | grep -c .)" = 1 ] || fail "$name: expected one error line, got: $(cat "$work/err")"
    for pattern in "$@"; do
        grep -qF -- "$pattern" <<<"$lines" || fail "$name: '$lines' does not name '$pattern'"
    done
}

sweep() {
    launch 60 3 run "$work/sweep.yaml"
    status=$?
}

# The same in one process without mpirun, which takes most of the time where nothing starts.
alone() { timeout -k 5 300 "$QTRAJ" "$@" >"$work/out" 2>"$work/err" </dev/null; }
sweep_alone() {
    alone run "$work/sweep.yaml"
    status=$?
}

line_of() { grep -n -m 1 -- "$1" "$work/sweep.yaml" | cut -d : -f 1; }

# --- the sweep file: nothing starts, exit code 2 ---

# Absent files of all kinds: what, where it is named, what to do.
absent() { # KEY PATH IN-THE-MESSAGE EXPRESSION
    write_sweep methods='[{method: gptq, group_size: 64}]' extra="$5"
    sed -i "$4" "$work/sweep.yaml"
    sweep_alone
    expect "absent $1" 2 "$work/$2: $3 ($work/sweep.yaml:$(line_of none):" ": $1); correct the key, or put the file there"
}
absent models[0].tokenizer none.json 'No such file or directory' 's|tokenizer: .*|tokenizer: none.json|' ''
absent calibration.text none.txt 'No such file or directory' '/^calibration/s|text.txt|none.txt|' ''
absent evaluation[0].text none.txt 'No such file or directory' '/name: own/s|text.txt|none.txt|' ''
absent count_tokens none.json 'no such file' '' 'count_tokens: none.json'
absent tasks.data none/sciq.jsonl 'there is no such file, nor one with .gz or .zst behind it' '' 'tasks: {names: [sciq], data: none}'
cp -r "$trajectory/step000500" "$work/good"

write_sweep extra='bitz: [3]'
sweep
expect "unknown key" 2 "sweep.yaml:$(line_of bitz)" bitz bits

write_sweep extra='bits: [4]'
sweep_alone
expect "repeated key" 2 "sweep.yaml:$(line_of 'bits: \[4')" bits

write_sweep methods='[{method: gptq, damping: some}]'
sweep_alone
expect "bad number" 2 "sweep.yaml:$(line_of some)" damping some

write_sweep methods='[{method: gptx}]'
sweep_alone
expect "unknown method" 2 "sweep.yaml:$(line_of gptx)" "methods[0].method" gptx gptq

# options that contradict each other: in a sweep and as flags
write_sweep methods='[{method: gptq, order: group, group_size: -1}]'
sweep_alone
expect "groups of no size in order" 2 "sweep.yaml:$(line_of 'order: group')" "methods[0]: order: group needs a group_size"
alone quantize "$work/good" --method gptq --bits 3 --order group --group-size -1 --calibration-text "$work/text.txt" \
    --calibration-length 64 --tokenizer "$trajectory/tokenizer.json"
status=$?
expect "the same by flags" 2 "order: group needs a group_size"

write_sweep methods='[{method: rtn}, {method: rtn, group_size: 32}]'
sweep_alone
expect "two methods with one label" 2 rtn methods

for bits in 1 9; do
    write_sweep bits="[$bits]"
    sweep
    expect "$bits bits" 2 "sweep.yaml:$(line_of '^bits')" bits "$bits"
done

# widths that a method does not have, wherever they are asked for
write_sweep methods='[{method: nf4, bits: [4, 5]}]'
sweep_alone
expect "5 bits of nf4" 2 "sweep.yaml:$(line_of 'nf4'):" "methods[0].bits: 5: nf4 has 4 bits"
write_sweep bits='[3, 4]' methods='[{method: nf4}, {method: rtn, bits: [3]}]'
sweep_alone
expect "3 bits that no method takes" 2 "sweep.yaml:$(line_of '^bits'):" "bits: 3: nf4 has 4 bits, and no other method has it"
for bits in "bits: [3, 4]" "bits: [4]"; do
    alone plan "$work/sweep.yaml" --set "${bits/: /=}" --set 'methods=[{method: nf4}, {method: rtn}]'
    [ $? = 0 ] || fail "$bits of two methods: $(cat "$work/err")"
done
alone quantize "$work/good" --method nf4 --bits 5
status=$?
expect "5 bits of nf4: quantize" 2 "--bits 5: nf4 has 4 bits"

write_sweep checkpoints="good other"
sed -i 's/other,2/other,1/' "$work/trajectory.csv"
sweep_alone
expect "two checkpoints at one step" 2 "trajectory.csv:3: step: 1 is already on line 2"

write_sweep text=absent.txt
sweep
expect "unreadable text" 2 absent.txt

mkfifo "$work/pipe"
write_sweep text=pipe
sweep_alone
expect "a FIFO for a text" 2 "pipe: not a regular file"

# each {a,b} doubles the names: writing them out would take for ever
write_sweep text="\"$(printf '{a,b}%.0s' {1..30})\""
for command in run plan; do
    alone $command "$work/sweep.yaml"
    status=$?
    expect "thirty alternatives: $command" 2 "make more than 10000 names"
done

launch 60 3 run "$work/no-such-sweep.yaml"
status=$?
expect "no sweep file" 2 no-such-sweep.yaml

write_sweep
alone status "$work/sweep.yaml"
status=$?
expect "the status of what has not begun" 2 sweep.yaml bad.journal

# --- existing files at `results` that are no results of this sweep: nothing is written, exit code 2 ---
write_sweep
cp "$work/text.txt" "$work/mine.txt"
sed -i 's/bad.h5/mine.txt/' "$work/sweep.yaml"
sweep_alone
expect "a file of the user's as results" 2 mine.txt "no results cube"
cmp -s "$work/text.txt" "$work/mine.txt" || fail "a file of the user's was written over"
mkdir "$work/folder"
sed -i 's/mine.txt/folder/' "$work/sweep.yaml"
sweep_alone
expect "a folder as results" 2 "results: $work/folder is a folder; give the name of a file"
sed -i 's,folder,/sys/qtraj/x.h5,' "$work/sweep.yaml"
sweep
expect "results where nothing can be made" 2 "error: results: cannot make its folder: /sys/qtraj: "
! grep -qF "No such file" "$work/err" || fail "the message names another cause: $(cat "$work/err")"

# --- bad checkpoints: their cells fail, the others are done, exit code 1; in single-checkpoint commands 2 ---
faults="truncated header_length shape missing"
for fault in $faults; do "$python" "$SOURCE/tests/tools/break_checkpoint.py" "$work/good" "$work/$fault" "$fault"; done

tensor=model.layers.0.mlp.down_proj.weight
needle() {
    case $1 in
    absent) echo absent ;;
    shape) echo "$tensor has shape [384, 128]; config.json asks for [128, 384]: is it of another model?" ;;
    missing) echo "$tensor is missing; a smollm3 of this config.json has it, shape [128, 384]: is a weight file missing, or" ;;
    *) echo "$1/model.safetensors" ;;
    esac
}

write_sweep checkpoints="absent $faults good"
sweep
[ $status = 1 ] || fail "broken checkpoints in a sweep: exit code $status, expected 1: $(cat "$work/err")"
"$QTRAJ" status "$work/bad.h5" >"$work/status" 2>&1 || fail "qtraj status: exit code $?"
for fault in absent $faults; do
    grep -F -- "$fault" "$work/status" | grep -qF -- "$(needle "$fault")" ||
        fail "status does not say what is wrong with $fault: $(cat "$work/status")"
done
"$QTRAJ" show "$work/bad.h5" --json >"$work/show.json" 2>/dev/null || fail "qtraj show: exit code $?"
"$python" - "$work/show.json" <<'PY' || fail "the good checkpoint of that sweep has no finite loss: $(cat "$work/show.json")"
import json, math, sys
rows = json.load(open(sys.argv[1]))
rows = rows if isinstance(rows, list) else next(v for v in rows.values() if isinstance(v, list))
good = [r for r in rows if r["checkpoint"] == "good" and r["status"] == "done"]
assert len(good) == 1 and math.isfinite(good[0]["loss"]), rows
assert all(r["status"] == "failed" for r in rows if r["checkpoint"] != "good"), rows
PY

grep -qF "\"command\":\"run $work/sweep.yaml\"" "$work/bad.journal" || fail "the journal does not name its command"

sweep
[ $status = 1 ] || fail "the same sweep again: exit code $status, expected 1"

alone inspect "$work/truncated" --tensors
status=$?
expect "the tensors of a truncated file" 2 truncated/model.safetensors
alone inspect "$work/truncated" || fail "a config beside a truncated file: $(cat "$work/err")"

for fault in absent $faults; do
    alone eval "$work/$fault" --text "$work/text.txt" --length 64 --tokenizer "$trajectory/tokenizer.json"
    status=$?
    expect "eval of $fault" 2 "$(needle "$fault")"
done

"$python" "$SOURCE/tests/tools/break_checkpoint.py" "$work/good" "$work/nan" nan
alone curvature "$work/nan" --text "$work/text.txt" --length 64 --samples 2 --tokenizer "$trajectory/tokenizer.json"
status=$?
expect "curvature of weights that are no numbers" 2 "$work/nan" finite
write_sweep checkpoints="nan good" \
    extra='curvature: {sharpness: power, products: 2, sequences: 1, length: 64, warm_start: true}'
sed -i 's/bad.h5/warm.h5/' "$work/sweep.yaml"
sweep
[ $status = 1 ] || fail "a warm start behind a damaged checkpoint: exit code $status, expected 1"
"$QTRAJ" status "$work/warm.h5" | grep -F "good (curvature)" | grep -qF "warm start: $work/nan" ||
    fail "status does not say whose fault it is: $("$QTRAJ" status "$work/warm.h5")"
rm "$work/warm.h5"
"$QTRAJ" status "$work/warm.h5" | grep -qF "good (curvature)" || fail "without a cube status does not read its journal"

# --- stdout cannot be written: exit code 3 ---
for command in options methods "inspect $work/good" "status $work/bad.h5" "show $work/bad.h5" \
    "eval $work/good --text $work/text.txt --length 64 --samples 2 --tokenizer $trajectory/tokenizer.json"; do
    # shellcheck disable=SC2086
    "$QTRAJ" $command >/dev/full 2>"$work/err" </dev/null
    status=$?
    expect "$command on a full disk" 3 "cannot write" space
done

# --- a second run on the same results ---
write_sweep text="$work/long.txt" methods='[{method: gptq, group_size: 64}]' bits='[2, 3, 4, 5, 6, 7, 8]'
sed -i -e 's/length: 64, skip: 4, samples: 4/length: 256, skip: 4/' -e 's/bad.h5/locked.h5/' "$work/sweep.yaml"
for _ in 1 2 3 4 5 6; do cat "$work/text.txt"; done >"$work/long.txt"
mpirun -n 3 "$QTRAJ" run "$work/sweep.yaml" >/dev/null 2>"$work/first" </dev/null &
first=$!
for _ in $(seq 200); do [ ! -e "$work/locked.journal.lock" ] || break; sleep 0.05; done
sweep
expect "results locked" 2 locked.journal "$(hostname)"
# shellcheck disable=SC2046
kill -TERM $(ps -o pid= --ppid $first)
wait $first
code=$?
[ $code = 3 ] || fail "SIGTERM: exit code $code, expected 3: $(cat "$work/first")"
[ ! -e "$work/locked.journal.lock" ] || fail "the stopped run left its lock"

# --- a missing scratch folder: fails at the start, not in every cell ---
write_sweep
for ranks in 1 3; do
    launch 60 $ranks run "$work/sweep.yaml" --set "run.scratch=$work/none"
    status=$?
    expect "no scratch, $ranks ranks" 2 "run.scratch: $work/none is not a folder"
done

# --- a full disk: exit code 3, finished cells stay ---
mkdir "$work/disk"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=64k qtraj-test "$work/disk" 2>/dev/null; then
    trap 'umount "$work/disk"; rm -rf "$work"' EXIT
    cp -r "$trajectory/step000300" "$work/other"
    write_sweep checkpoints="good other" methods='[{method: rtn, group_size: 64}, {method: gptq, group_size: 64}]'
    sed -i 's,bad.h5,disk/full.h5,' "$work/sweep.yaml"
    head -c 48k /dev/zero >"$work/disk/filler"
    sweep
    expect "full disk" 3 disk/full space
    rm "$work/disk/filler"
    mount -o remount,size=4m "$work/disk"
    sweep
    [ $status = 0 ] || fail "after the disk was full: exit code $status, expected 0: $(cat "$work/err")"
    # Only one rank of a group writes there: the others must get the error.
    write_sweep checkpoints="good other" extra='curvature: {second_order: total, sequences: 2, length: 64}'
    sed -i 's,bad.h5,group.h5,' "$work/sweep.yaml"
    rm -r "$work"/disk/*
    mount -o remount,size=128k "$work/disk"
    launch 60 3 run "$work/sweep.yaml" --set "run.scratch=$work/disk" --set run.ranks_per_group=2
    status=$?
    expect "full scratch of a group" 3 "run.scratch: $work/disk: No space left" "; stopped: start the run again"
    mount -o remount,size=64m "$work/disk"
    launch 60 3 run "$work/sweep.yaml" --set "run.scratch=$work/disk" --set run.ranks_per_group=2 ||
        fail "after the scratch was full: $(cat "$work/err")"
else
    echo "no tmpfs can be mounted here: the full disk was left out"
fi
finish
