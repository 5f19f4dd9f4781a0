#!/usr/bin/env bash
# What is finished stays finished while the folder of a checkpoint, or its tokenizer, is not there (a purged scratch, a lost mount): only
# what is new and needs it fails, and says why; no failure hides a result. What comes back goes on.
. "$SOURCE/tests/tools/lib.sh"
fixed_text "$work/text.txt"
echo checkpoint,step,tokens,learning_rate,phase >"$work/trajectory.csv"
step=0
for name in step000100 step001200; do # each with a tokenizer of its own
    mkdir -p "$work/store"
    cp -r "$quickstart/trajectory/$name" "$work/store/"
    cp "$quickstart/trajectory/tokenizer.json" "$work/store/$name/"
    echo "$name,$((step += 100)),1,0.1,stable" >>"$work/trajectory.csv"
done
cat >"$work/sweep.yaml" <<'YAML'
name: away
results: away.h5
models: [{name: small, trajectory: trajectory.csv, path: "store/{checkpoint}"}]
bits: [4]
methods: [{method: rtn, group_size: 64}, {method: gptq, group_size: 64}]
calibration: {text: text.txt, samples: 2}
evaluation: [{name: text, text: text.txt, skip: 2, samples: 2}]
curvature: {critical: true, sharpness: none, trace: 1, sequences: 1, length: 64}
movement: rtn
YAML
# go CODE WHAT COMMAND ARGUMENT ...
go() {
    timeout 120 "$QTRAJ" "$3" "$work/sweep.yaml" "${@:4}" >"$work/out" 2>"$work/err"
    local code=$?
    [ $code = "$1" ] || fail "$2: exit code $code: $(cat "$work/out" "$work/err")"
}
says() { cat "$work/out" "$work/err" | grep -qE -- "$1" || fail "$2: expected $1: $(cat "$work/out" "$work/err")"; }
shown() { # all numbers of 4 bits, of curvature and of movement
    "$QTRAJ" show "$work/away.h5" --csv --only bits=4 --metric loss_relative,kl_divergence
    "$QTRAJ" show "$work/away.h5" --csv --kind curvature --metric trace
    [ "${1:-}" = cells ] || "$QTRAJ" show "$work/away.h5" --csv --kind movement --metric movement
}
same() { # same WHAT [cells]
    shown "${2:-}" >"$work/now" 2>&1
    head -n "$(wc -l <"$work/now")" "$work/then" | diff - "$work/now" || fail "$1: other numbers"
}
go 0 "all there" run
says "4 of 4 cells done" "all there"
shown >"$work/then" 2>&1
[ "$(grep -c done "$work/then")" -ge 7 ] || fail "nothing to compare: $(cat "$work/then")"

# Everything is away: nothing to do, nothing to warn of.
mv "$work/store" "$work/gone"
go 0 "plan, all away" plan --rate 10
says "done 4, ! failed 0, . pending 0" "plan, all away"
go 0 "all away" run
says "4 of 4 cells done, 0 failed, 0 pending; nothing to do" "all away"
same "all away"
mv "$work/gone" "$work/store"

# One is away while bits are added: its new cells fail, what it had stays.
mv "$work/store/step001200" "$work/gone"
go 1 "bits" run --set bits=[3,4]
says "6 of 8 cells done, 2 failed" "bits"
says "step001200: no such folder" "bits"
same "bits" cells
mv "$work/gone" "$work/store/step001200"
go 0 "back" run --set bits=[3,4] --retry failed
says "8 of 8 cells done, 0 failed" "back"
go 0 "4 bits again" run
same "back"

# Its tokenizer alone.
mv "$work/store/step001200/tokenizer.json" "$work/gone.json"
go 0 "tokenizer" run
says "nothing to do" "tokenizer"
go 1 "tokenizer, bits" run --set bits=[4,5]
says "6 of 8 cells done, 2 failed" "tokenizer, bits"
says "no tokenizer.json there" "tokenizer, bits"
same "tokenizer" cells
# Jobs of a sweep that has failures and nothing else to do.
go 1 "slurm" slurm --rate 10 --node-cores 4 --node-memory 8 --set bits=[4,5]
says "nothing to do: .*away.h5: 3 failed \(qtraj status says why\); --retry failed computes them again" "slurm"
go 2 "slurm --retry" slurm --rate 10 --node-cores 4 --node-memory 8 --set bits=[4,5] --retry failed
says "step001200 nor the folder above has a tokenizer.json" "slurm --retry"
mv "$work/gone.json" "$work/store/step001200/tokenizer.json"
go 0 "slurm, repaired" slurm --rate 10 --node-cores 4 --node-memory 8 --set bits=[4,5] --retry failed
says "^submit --array=.* --retry failed" "slurm, repaired"

# A text is away: a run refuses and leaves all as it is; the plan knows what is finished.
mv "$work/text.txt" "$work/gone.txt"
go 2 "text" run
same "text" cells
go 2 "plan, text" plan --rate 10 --set bits=[4,5]
says "done 6, ! failed 2, . pending 0" "plan, text"
grep -q "its cells will fail" "$work/err" && fail "plan, text: said twice: $(cat "$work/err")"
mv "$work/gone.txt" "$work/text.txt"

# A shorter trajectory leaves out rows, and gets them back.
cp "$work/trajectory.csv" "$work/all.csv"
sed -i /step001200/d "$work/trajectory.csv"
go 0 "shorter" run
says "2 of 2 cells done" "shorter"
cp "$work/all.csv" "$work/trajectory.csv"
go 0 "as long again" run
says "4 of 4 cells done, 0 failed, 0 pending; nothing to do" "as long again"
same "as long again"

# Weights that were cut short: the plan says so although nothing is to be computed.
cp "$work/store/step001200/model.safetensors" "$work/whole"
truncate -s -1000 "$work/store/step001200/model.safetensors"
go 1 "truncated" plan --rate 10
says "small step001200: its weights cannot be read, its finished results stay: .*model.safetensors" "truncated"
says "done 4, ! failed 0, . pending 0" "truncated"
go 0 "truncated, run" run
says "small step001200: its weights cannot be read, its finished results stay: " "truncated, run"
cp "$work/whole" "$work/store/step001200/model.safetensors"

# Changed weights: the header of the plan and its rows say what is left, as its end does.
cp "$work/store/step000100/model.safetensors" "$work/store/step001200/"
go 0 "changed" plan --rate 10
says "done 2, ! failed 0, . pending 2" "changed"
says "step001200  rtn 4\\.  gptq 4\\.  curvature\\.  movement\\." "changed"
says "1 visit, 2 cells to do" "changed"

# A results file that is not there yet is said to be new; one that cannot be made is a fault.
grep -q "new results file" "$work/out" && fail "new: $(cat "$work/out")"
go 0 "new" plan --rate 10 --set "results=$work/typo.h5"
says "into $work/typo.h5, a new results file$" "new"
go 0 "new folder" plan --rate 10 --set "results=$work/none/typo.h5"
says "into $work/none/typo.h5, a new results file in a folder that a run makes$" "new folder"
go 1 "/proc" plan --rate 10 --set results=/proc/x/s.h5
says "results: folder /proc/x does not exist" "/proc"
go 2 "slurm, /proc" slurm --rate 10 --node-cores 4 --node-memory 8 --set results=/proc/x/s.h5
says "results: folder /proc/x does not exist" "slurm, /proc"
go 2 "report in /proc" slurm --rate 10 --node-cores 4 --node-memory 8 --report /proc/x
says "--report: /proc/x: /proc: no files can be made there" "report in /proc"
finish
