#!/usr/bin/env bash
# qtraj train --plan: what is left, and everything that would fail, before anything is trained; it writes nothing.
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/train.sh"
mkdir "$work/here" && cd "$work/here" || exit 2

# plan CODE TEXT ARGUMENT ...: of the exit code; stderr says the text, "": no fault
plan() {
    local code=0
    "$QTRAJ" train "${@:3}" --plan --rate 10 >out.txt 2>err.txt || code=$?
    [ $code = "$1" ] || fail "${*:3}: exit code $code, expected $1: $(cat err.txt)"
    if [ -n "$2" ]; then
        grep -qF -- "$2" err.txt || fail "${*:3}: does not say \"$2\": $(cat err.txt)"
    elif grep -q warning: err.txt; then
        fail "${*:3}: $(cat err.txt)"
    fi
}
says() { grep -qE -- "$1" out.txt || fail "does not print \"$1\": $(cat out.txt)"; }

# --- texts, tokens and models ---
runs_file runs.yaml
plan 0 "" runs.yaml
says "^tiny +1 to 24 +2.3k "
says "^all: 2.78k tokens"
plan 0 "" runs.yaml --simulate 1,2,9
says "^simulated: 1 rank, 1 to a run: "
says "^simulated: 2 ranks, 2 to a run: "
says "^simulated: 9 ranks, 9 to a run: "
code=0; "$QTRAJ" train runs.yaml --plan --simulate 1,no >out.txt 2>err.txt || code=$?
[ $code = 2 ] && grep -qF "1,no: expected numbers of ranks" err.txt || fail "--simulate 1,no: $code, $(cat err.txt)"
plan 2 "tiny: $work/text.jsonl:1: " runs.yaml --set data.field=txet
grep -q "(1 more run likewise)" err.txt && grep -q "2 of 2 runs left would fail" err.txt || fail "not once: $(cat err.txt)"
plan 2 "(its fields: text)" runs.yaml --set data.field=txet
plan 0 "text.jsonl: its lines are JSON objects, and are read as plain text" runs.yaml --set data.field=null --set data.validation=20
plan 2 "separator: the tokenizer has no token none" runs.yaml --set data.separator=none
plan 2 "are held out (data.validation): none is left to train on" runs.yaml --set data.validation=1000000
plan 2 "model.vocab: 100, but the tokenizer has ids up to 999; give 1000 or more" runs.yaml --set model.vocab=100
plan 2 "but the model has 8 positions" runs.yaml --set model.positions=8
plan 2 "none.jsonl" runs.yaml --set "data.text=$work/none.jsonl"
mkdir texts && cp "$work/text.jsonl" texts/a.jsonl && echo '{"words": "of another key"}' >texts/b.jsonl
plan 2 "texts/b.jsonl:1: " runs.yaml --set "data.text=$PWD/texts/*.jsonl" --set data.validation=0
# a grid of which some runs would fail; the same fault of several runs is one line
plan 1 "2 of 6 runs left would fail" runs.yaml --set 'grid={model.positions: [8, 16], seed: [1]}' --set 'grid={model.positions: [8, 16, 32]}'
[ "$(grep -c warning: err.txt)" = 2 ] || fail "more than one line: $(cat err.txt)"

# --- where ---
touch file
plan 2 "tiny: output: file is no folder (1 more run likewise)" runs.yaml --set output=file/out
plan 2 "data.cache: file is no folder" runs.yaml --set data.cache=file
mkdir shut && chmod 500 shut
[ -w shut ] || plan 2 "output: shut: Permission denied" runs.yaml --set output=shut/out
big='model={family: llama, hidden: 8192, layers: 400, heads: 64, vocab: 200000}'
plan 1 "B are free there" runs.yaml --set "$big" --set checkpoints.every=1 --set steps=100000
"$QTRAJ" train runs.yaml --set "$big" --plan >out.txt 2>err.txt
grep -q "tiny: needs .*B of memory, where a rank has .*(1 more run likewise)" err.txt || fail "memory: $(cat err.txt)"
[ -z "$(ls -A | grep -vE '^(runs.yaml|texts|file|shut|(out|err).txt)$')" ] || fail "a plan has written: $(ls)"

# --- runs that are there ---
train() { "$QTRAJ" train "$@" 2>err.txt || fail "train $*: $(cat err.txt)"; }
train runs.yaml
find out | sort >files.before
plan 0 "" runs.yaml
says "^tiny +done +done .* done +done$"
says "^left: 0 tokens, 0B on disk, about 0 s "
plan 0 "" runs.yaml --set 'branches=[{name: "cool-{from}", from: [9], steps: 5}, {name: later, of: cool-9, from: [14], steps: 5}]' --only tiny
plan 1 "tiny: begun with another schedule.peak (run.json: 0.01 -> 0.001)" runs.yaml --set schedule.peak=1e-3
plan 1 "tiny: begun with another number of steps (run.json: 24 -> 12)" runs.yaml --set steps=12
grep -q "; no state of it was kept, so that a longer run trains all steps again (checkpoints.states keeps" err.txt || fail "$(cat err.txt)"
echo '{"text": "one more"}' >>"$work/text.jsonl"
plan 1 "begun with another text, field, separator or tokenizer" runs.yaml
sed -i '$d' "$work/text.jsonl"
plan 2 "tiny-cool-12: tiny has passed step 12, from which it branches, and no state of it was kept" runs.yaml \
    --set 'branches=[{name: "cool-{from}", from: [9, 12], steps: 5}]'
says "^tiny-cool-9 +done "
says "^tiny-cool-12 +13 to 17 "
# checkpoints at steps that are passed, of which none is made; one that was removed is none of them
plan 1 "tiny: 4 checkpoints of steps 3 and later are asked for, but passed: move the run's folder out of the output" runs.yaml --set checkpoints.every=3 --only tiny
plan 1 "tiny: 1 checkpoint of step 7 is asked for, but passed" runs.yaml --set checkpoints.at=[7] --only tiny
"$QTRAJ" train runs.yaml --set checkpoints.at=[7] --only tiny 2>err.txt && grep -q "warning: tiny: 1 checkpoint of step 7 is asked for, but passed" err.txt ||
    fail "train: $(cat err.txt)"
cp -r out less && rm -r less/tiny/step000006
plan 0 "" runs.yaml --set output=less
find out | sort | cmp -s - files.before || fail "a plan has changed a folder"
# one that was stopped has less to do
cp -r out begun && rm -r begun/tiny/end.json
plan 0 "" runs.yaml --set output=begun
says "^tiny +1 to 24 "
train runs.yaml --set output=states --set checkpoints.states=true
plan 1 "let a branch go on from a step whose state is in tiny/state: branches: [{name: longer, from: 24, steps" runs.yaml \
    --set output=states --set checkpoints.states=true --set steps=36
plan 0 "" runs.yaml --set output=states --set checkpoints.states=true --only tiny-longer \
    --set 'branches=[{name: longer, from: [18], steps: 18, schedule: {kind: constant}}]'
says "^tiny-longer +19 to 36 "
plan 1 "tiny: 4 states that checkpoints.states kept are removed when it is trained without that key" runs.yaml --set output=states
plan 1 "tiny: checkpoints that are there are not bfloat16 (checkpoints.dtype) and stay as they are: move the run's folder" runs.yaml \
    --set output=states --set checkpoints.states=true --set checkpoints.dtype=bfloat16
rm states/tiny/end.json states/tiny/state/step000024.safetensors
plan 0 "" runs.yaml --set output=states --set checkpoints.states=true
says "^tiny +19 to 24 +576 "
echo '{"status": "d' >states/tiny/end.json
plan 2 "states/tiny/end.json: expected how the run has ended" runs.yaml --set output=states --set checkpoints.states=true

# --- plans of what is in configs/, where the texts are not ---
export FINEWEB=$work/fineweb
mkdir "$FINEWEB" && cp "$SOURCE/tests/fixtures/tokenizers/neox/tokenizer.json" "$FINEWEB"
for file in "$SOURCE"/configs/controlled/*.yaml "$SOURCE/configs/quickstart/train.yaml"; do
    "$QTRAJ" train "$file" --plan --rate 2000 >"$work/plan.$(basename "$file")" 2>err.txt
    case $? in 0 | 2) ;; *) fail "$file: $(cat err.txt)" ;; esac
done
grep -qE "^peak3e-3 +1 to 190000 +99.6B +162M +95 " "$work/plan.paper.yaml" || fail "paper: $(cat "$work/plan.paper.yaml")"
grep -qE "^peak1e-3-cooldown-36000 +36001 to 54000 +9.44B " "$work/plan.paper.yaml" || fail "paper: $(cat "$work/plan.paper.yaml")"
[ "$(grep -cE "^(peak|steps)" "$work"/plan.small*.yaml | cut -d: -f2 | xargs)" = "72 72" ] || fail "small: $(wc -l "$work"/plan.small*)"
grep -qE "^quickstart-cooldown +501 to 800 +2.46M +1.05M +3 " "$work/plan.train.yaml" || fail "quickstart: $(cat "$work/plan.train.yaml")"

finish
