#!/usr/bin/env bash
# qtraj train: what it leaves, the same bits by any number of ranks and after stops, what a sweep reads of it, and how it ends.
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/train.sh"
mkdir "$work/here" && cd "$work/here" || exit 2

# train CODE ARGUMENT ...
train() {
    local code=0
    "$QTRAJ" train "${@:2}" >out.txt 2>err.txt || code=$?
    [ $code = "$1" ] || fail "train ${*:2}: exit code $code, expected $1: $(cat err.txt)"
}
says() { grep -qF -- "$1" err.txt || fail "does not say \"$1\": $(cat err.txt)"; }

runs_file runs.yaml
train 0 runs.yaml
says "tiny: 36.1k parameters, steps 1 to 24: 2.3k tokens, "
says "tiny-cool-9: 36.1k parameters, steps 10 to 14: 480 tokens, "
says "2 of 2 runs done"
[ "$(ls out/tiny)" = "$(printf '%s\n' end.json run.json state step000000 step000006 step000012 step000018 step000024 steps.csv trajectory.csv)" ] ||
    fail "files: $(ls out/tiny)"
[ -z "$(ls out/tiny/state out/tiny-cool-9/state | grep step)" ] || fail "states stay"
[ "$(cut -d, -f1-5 out/tiny/trajectory.csv | tail -n 2)" = "step000018,18,1728,0.01,stable
step000024,24,2304,0.00166666667,decay" ] || fail "$(cat out/tiny/trajectory.csv)"
[ "$(cut -d, -f9-11 out/tiny/trajectory.csv | tail -n 1)" = wsd,0.1,0 ] || fail "settings: $(cat out/tiny/trajectory.csv)"
[ "$(cut -d, -f1,9,12 out/tiny-cool-9/trajectory.csv | tail -n 1)" = step000014,decay,tiny ] || fail "branch: $(cat out/tiny-cool-9/trajectory.csv)"
[ "$(wc -l <out/tiny/steps.csv)" = 25 ] || fail "steps.csv: $(cat out/tiny/steps.csv)"

# the same bits by three ranks, by groups of one, and on more threads
launch 60 3 train runs.yaml --set output=three || fail "three ranks: $(cat "$work/err")"
same_training out three
launch 60 2 train runs.yaml --set output=groups --set run.ranks_per_run=1 || fail "groups: $(cat "$work/err")"
same_training out groups
OMP_NUM_THREADS=3 train 0 runs.yaml --set output=threads
same_training out threads

# ternary linears: the same bits too; runs with them and without are others; only weights that are there in floats can be trained
ternary=(--set model.linears=ternary --set model.family=bitnet)
train 0 runs.yaml "${ternary[@]}" --set output=ternary
launch 60 3 train runs.yaml "${ternary[@]}" --set output=ternary-three || fail "ternary, three ranks: $(cat "$work/err")"
same_training ternary ternary-three
OMP_NUM_THREADS=3 train 0 runs.yaml "${ternary[@]}" --set output=ternary-threads
same_training ternary ternary-threads
train 1 runs.yaml --set model.family=bitnet --set output=ternary
says "begun with another config"
train 1 runs.yaml --set "model={config: $SOURCE/tests/fixtures/models/bitnet_packed/config.json, vocab: 1000}" --set output=packed
says "quantization_config: only ternary weights in mode online can be trained"
train 0 runs.yaml --set "model={config: $SOURCE/tests/fixtures/models/bitnet_online/config.json, vocab: 1000, layers: 1}" --set output=online --set steps=2 --set branches=
grep -q '"online"' online/tiny/step000002/config.json || fail "$(cat online/tiny/step000002/config.json)"

# a signal after some step: the rest is for a later start, by another number of ranks
runs_file long.yaml
sed -i 's/output: out/output: long/; s/steps: 24/steps: 200/; s/25%/50/' long.yaml
"$QTRAJ" train long.yaml --set output=whole 2>err.txt || fail "long: $(cat err.txt)"
"$QTRAJ" train long.yaml 2>err.txt &
pid=$!
wait_for 60 test -e long/tiny/step000012/config.json
kill -TERM $pid
wait $pid
code=$?
if [ ! -e long/tiny/end.json ]; then
    [ $code = 3 ] || fail "a signal: exit code $code: $(cat err.txt)"
    says "start again"
fi
launch 120 2 train long.yaml || fail "resumed: $(cat "$work/err")"
same_training whole long

# a branch that is added later: from a state that was kept, or a message that says what to do; states of which none is needed go
runs_file kept.yaml
sed -i 's/output: out/output: kept/; s/every: 6/every: 6, states: true/' kept.yaml
train 0 kept.yaml
[ "$(ls kept/tiny/state)" = "$(printf 'step%06d.safetensors\n' 6 12 18 24)" ] || fail "kept: $(ls kept/tiny/state)"
# the same run by another name and file, which neither keeps states nor has the branch: the states stay; but not of another type
train 0 runs.yaml --set output=kept --set name=other --only other
says "other: the settings of tiny, which is done: that folder is used"
[ "$(ls kept/tiny/state | wc -l)" = 4 ] || fail "states of another file's run go: $(ls kept/tiny/state)"
train 0 runs.yaml --set output=kept --set name=half --set checkpoints.dtype=bfloat16 --only half
grep -q bfloat16 kept/half/step000024/config.json || fail "another type: $(ls kept)"
rm -r kept/half
# another type under the run's own name is said
cp -r kept/tiny/step000024 before
train 0 runs.yaml --set output=kept --set checkpoints.states=true --set checkpoints.dtype=bfloat16
says "warning: tiny: checkpoints that are there are not bfloat16 (checkpoints.dtype) and stay as they are"
diff -r before kept/tiny/step000024 || fail "a checkpoint was written again"
for output in kept out; do
    runs_file later.yaml
    sed -i "s/output: out/output: $output/; s/from: .9./from: [9, 12]/" later.yaml
    [ $output = kept ] || { train 1 later.yaml; continue; }
    train 0 later.yaml
    says "warning: tiny: 3 states that checkpoints.states kept are removed"
done
says "tiny has passed step 12, from which it branches, and no state of it was kept: move the folder of tiny out of the output"
train 0 later.yaml --set output=both
same_training both/tiny-cool-12 kept/tiny-cool-12
train 0 later.yaml --set output=kept --set checkpoints.states=false
[ ! -e kept/tiny-cool-12/state/step000017.safetensors ] || fail "the state of a run that was done stays"

# a damaged end.json: only that run is told of, and it is trained again when it is removed
cp -r both damaged
echo '{"status": "d' >damaged/tiny/end.json
rm -rf damaged/tiny-cool-9
train 1 later.yaml --set output=damaged
says "damaged/tiny/end.json: expected how the run has ended; remove it to train the run again"
says "1 of 3 runs done, 0 diverged, 2 not trained"
rm damaged/tiny/end.json
train 0 later.yaml --set output=damaged
same_training both damaged

# what is done is not done again; other settings and other data are refused by name. A state that a process was killed before it removed goes
: >out/tiny/state/step000024.safetensors
train 0 runs.yaml
[ ! -e out/tiny/state/step000024.safetensors ] || fail "a state of a run that is done stays"
grep -q "steps 1 to" err.txt && fail "trained again"
train 1 runs.yaml --set schedule.peak=1e-3
says "begun with another schedule.peak"
train 1 runs.yaml --set steps=12
says "begun with another number of steps"
echo '{"text": "one more"}' >>"$work/text.jsonl"
train 1 runs.yaml
says "begun with another text, field, separator or tokenizer"
# a branch that has not begun neither goes on from that run with the other text
rm -rf other && mkdir -p other/tiny && cp -r both/tiny/. other/tiny
train 1 later.yaml --set output=other
says "0 of 3 runs done, 0 diverged, 3 not trained"
[ ! -e other/tiny-cool-9 ] || fail "a branch on another text: $(ls other/tiny-cool-9)"
sed -i '$d' "$work/text.jsonl"

# a grid, of which one diverges and the rest goes on; names; --only takes what a branch needs
train 1 runs.yaml --set output=grid --set 'grid={schedule.peak: [1e-2, 1e30]}' --set optimizer.clip=0 --set optimizer.kind=sgd
says "peak1e30: diverged at step"
says "2 of 4 runs done, 1 diverged, 1 not trained"
says "step 9 of peak1e30, from which it branches, is not there"
[ -e grid/peak1e-2-cool-9/step000014/model.safetensors ] || fail "the rest: $(ls grid)"
train 0 runs.yaml --set output=only --only '*-cool-9'
[ -e only/tiny/step000024 ] || fail "--only: $(ls only)"

# a grid whose values are written otherwise, or that has a key more: what is known goes on in its folder, with its branches
train 0 runs.yaml --set output=again --set 'grid={schedule.peak: [1e-2, 3e-3]}' --only 'peak1e-2*'
ls again/*/ >names.before
for grid in '{seed: [0], schedule.peak: [0.010]}' '{schedule.peak: [1e-2], optimizer.weight_decay: [0.1]}'; do
    train 0 runs.yaml --set output=again --set "grid=$grid" --plan
    grep -qE "^peak1e-2-cool-9 +done " out.txt || fail "$grid: $(cat out.txt)"
    says "the settings of peak1e-2, which is done: that folder is used"
    launch 60 2 train runs.yaml --set output=again --set "grid=$grid" || fail "$grid: $(cat "$work/err")"
    grep -q "steps 1 to" "$work/err" && fail "$grid: trained again: $(cat "$work/err")"
    ls again/*/ | cmp -s - names.before || fail "$grid: $(ls again/*/)"
done
says "peak1e-2-weight_decay0.1-cool-9: the settings of peak1e-2-cool-9, which is done"
train 0 runs.yaml --set output=again --set 'grid={schedule.peak: [1e-2], optimizer.weight_decay: [0.1, 0.3]}' \
    --set 'branches=[{name: "cool-{from}", from: [9, 24], steps: 5}]' --only '*weight_decay0.3-cool-9'
[ "$(ls again | grep peak | xargs)" = "peak1e-2 peak1e-2-cool-9 peak1e-2-weight_decay0.3 peak1e-2-weight_decay0.3-cool-9" ] ||
    fail "one more value: $(ls again | xargs)"

# where nothing can be written; clear messages
mkdir shut && chmod 500 shut
if [ ! -w shut ]; then
    train 2 runs.yaml --set output=shut/out
    says "shut/out"
fi
touch file
train 2 runs.yaml --set output=file/out
says "file/out"
train 2 runs.yaml --set data.separator=none
says "no token none"
train 1 runs.yaml --set output=held --set model.positions=8
says "but the model has 8 positions (model.positions)"
train 2 runs.yaml --only 'no*'
says "no run has such a name"
train 1 runs.yaml --set output=held --set data.validation=1000000
says "none is left to train on"

# a sweep reads the trajectories as they are
cat >sweep.yaml <<YAML
name: trained
results: trained.h5
models:
  - {name: tiny, trajectory: out/tiny/trajectory.csv, path: "out/tiny/{checkpoint}"}
  - {name: cool, branch_of: tiny, trajectory: out/tiny-cool-9/trajectory.csv, path: "out/tiny-cool-9/{checkpoint}"}
  - {name: ternary, trajectory: ternary/tiny/trajectory.csv, path: "ternary/tiny/{checkpoint}"}
bits: [4]
methods: [{method: rtn}]
evaluation: [{name: own, text: ../text.jsonl, field: text, length: 16}]
YAML
"$QTRAJ" run sweep.yaml 2>err.txt || fail "sweep: $(cat err.txt)"
"$QTRAJ" variables trained.h5 >out.txt 2>&1
"$QTRAJ" show trained.h5 >out.txt
grep -q step000024 out.txt || fail "sweep: $(cat out.txt)"

# the sweep behind the training, in one go
mv out.txt alone.txt && rm -r out trained.*
train 2 runs.yaml --set then=absent.yaml
says "then: absent.yaml: no such file"
launch 60 3 train runs.yaml --set then=sweep.yaml || fail "then: $(cat "$work/err")"
"$QTRAJ" show trained.h5 >then.txt
cmp -s <(grep step alone.txt) <(grep step then.txt) || fail "then: $(diff alone.txt then.txt)"
# it is none of the settings that a run began with, not even of runs that have kept it as such
grep -q then out/tiny/run.json && fail "then: $(cat out/tiny/run.json)"
sed -i '1s/{/{"then": null,/' out/tiny-cool-9/run.json
sed -i '1s/{/{"then": "of-earlier.yaml",/' out/tiny/run.json
train 0 runs.yaml
train 0 runs.yaml --set name=other --plan
says "other-cool-9: the settings of tiny-cool-9, which is done: that folder is used"
finish
