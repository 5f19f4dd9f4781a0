#!/usr/bin/env bash
# qtraj init: what it takes from folders as trainers leave them, what it writes, and what it refuses.
. "$SOURCE/tests/tools/lib.sh"
need_python json
from=$SOURCE/configs/quickstart/trajectory
cd "$work" || exit 2
cat "$SOURCE"/docs/*.md >text.txt

# checkpoint FOLDER: a checkpoint without its tokenizer
checkpoint() { mkdir -p "$1" && cp "$from"/step001200/* "$1"; }
init() { "$QTRAJ" init "$@" >out 2>err || { fail "init $*: $(cat err)"; return 1; }; }
has() { grep -qxF -- "$2" "$1" || fail "no line '$2' in $1: $(cat "$1")"; }
plans() { "$QTRAJ" plan "$1" --rate 10 >out 2>err || fail "plan $1: $(cat err)"; }
refuses() {
    "$QTRAJ" init "${@:2}" >out 2>err && fail "init ${*:2} is taken"
    grep -qF -- "$1" err && [ "$(wc -l <err)" = 1 ] || fail "init ${*:2} says: $(cat err)"
}

# A folder of transformers' Trainer: steps of trainer_state.json, rates of scheduler.pt or else of the last log before.
for step in 500 1000 1500; do checkpoint trainer/checkpoint-$step; done
cp "$from/tokenizer.json" trainer/
"$python" - <<'PY'
import io, json, pickle, zipfile
for step in 500, 1000:
    history = [{"step": s, "learning_rate": 1e-4 * s / 100, "loss": 2.0} for s in range(100, 2000, 200)] + [{"step": 500, "eval_loss": 3.0}]
    with open(f"trainer/checkpoint-{step}/trainer_state.json", "w") as f:
        json.dump({"global_step": step, "num_input_tokens_seen": 2048 * step, "log_history": history}, f)
for protocol, step in (2, 1000), (4, 1500):
    state = {"base_lrs": [1e-3], "last_epoch": step, "_step_count": step + 1, "_last_lr": [0.5 / step], "lr_lambdas": [None]}
    with zipfile.ZipFile(f"trainer/checkpoint-{step}/scheduler.pt", "w") as z:
        z.writestr("scheduler/data.pkl", pickle.dumps(state, protocol))
PY
init trainer/ --text 'tex?.txt' --out pattern.yaml && plans pattern.yaml
init trainer/ --text text.txt --out one.yaml && plans one.yaml
has one.csv "checkpoint-500,500,1024000.0,0.0005,"
has one.csv "checkpoint-1000,1000,2048000.0,0.0005,"
has one.csv "checkpoint-1500,1500,,0.0003333333333333333,"
has one.yaml '    path: "trainer/{checkpoint}"'
! grep -q tokenizer one.yaml || fail "the tokenizer beside the checkpoints is named"

# Names with steps and tokens, runs of one name, a tokenizer in one folder alone, names that YAML and CSV must quote.
for name in stage1-step2000-tokens9B step10000-tokens42B-unsharded main; do checkpoint "a: #1/run/$name"; done
cp "$from/tokenizer.json" "a: #1/run/main/"
checkpoint 'b/run/epoch3, "best"'
cp "$from/tokenizer.json" b/run/epoch3*/
init 'a: #1/run/main' 'a: #1/run' b/run/* --text text.txt --out two.yaml && plans two.yaml
[ "$(grep -v '^#' two-run.csv | tail -n +2)" = "stage1-step2000-tokens9B,2000,9000000000.0,,
step10000-tokens42B-unsharded,10000,42000000000.0,,
main,,,," ] || fail "names: $(cat two-run.csv)"
has two-run-2.csv '"epoch3, ""best""",,,,'
has two.yaml '    tokenizer: "a: #1/run/main/tokenizer.json"'

# JSON lines: the field of the text, or else the first string.
echo '{"id": 1, "txt": "words enough for a sequence of the sweep", "url": "a"}' >lines.jsonl
init trainer/ --text lines.jsonl --out lines.yaml
grep -qF 'text: "lines.jsonl", field: "txt", length' lines.yaml || fail "the field: $(cat lines.yaml)"
echo '{"url": "a", "text": "words"}' >lines.jsonl
init trainer/ --text lines.jsonl --out lines.yaml --force
grep -qF 'text: "lines.jsonl", field: text, length' lines.yaml || fail "the field: $(cat lines.yaml)"

# Several texts are an evaluation each, named as their files; calibration is on the first.
cp text.txt second.v2.txt
init trainer/ --text text.txt --text=second.v2.txt --out texts.yaml && plans texts.yaml
[ "$(grep -cF -e '  - {name: "text", text: "text.txt", length' -e '  - {name: "second", text: "second.v2.txt", length' \
    -e '# calibration: {text: "text.txt", skip' texts.yaml)" = 3 ] || fail "several texts: $(cat texts.yaml)"

# Files are replaced only with --force; equal steps are none; a folder elsewhere is named from the root.
echo mine >one.csv
refuses "--out: make its folder first: none: No such file or directory" trainer --text text.txt --out none/one.yaml
refuses "./one.yaml is there already; --force replaces it" trainer --text text.txt --out ./one.yaml
rm one.yaml
refuses "one.csv is there already" trainer --text text.txt --out one.yaml
[ "$(cat one.csv)" = mine ] && [ ! -e one.yaml ] || fail "a file was replaced"
checkpoint trainer/again-500
mkdir sub
init trainer --text text.txt --out sub/one.yaml --force
grep -q 'several checkpoints have the same step' err || fail "equal steps: $(cat err)"
plans sub/one.yaml
has sub/one.csv "again-500,,,,"
has sub/one.yaml "    path: \"$(realpath trainer)/{checkpoint}\""
"$QTRAJ" init trainer --text text.txt --out sub/one.yaml --force >out 2>err || fail "--force: $(cat err)"

rm -r trainer/tokenizer.json trainer/again-500
refuses "no tokenizer.json in its checkpoints; name one with --tokenizer" trainer --text text.txt
refuses "none.txt: No such file" trainer --text none.txt
refuses "none*.txt: no file matches" trainer --text 'none*.txt'
refuses "--text is missing" trainer
refuses "no folder is given" --text text.txt
refuses "sub: no checkpoint" sub --text text.txt
echo '{"model_type": "unheard"}' >trainer/checkpoint-1500/config.json
refuses "unheard" trainer --text text.txt --tokenizer "$from/tokenizer.json" --out none.yaml
[ ! -e none.yaml ] || fail "a sweep file of an unknown family"

# Runs of qtraj train: their own tables, whose phases and branches are known.
for run in base/step000000 base/step000010 base/step000020 cooldown/step000030; do checkpoint "runs/$run"; done
cp "$from/tokenizer.json" runs/base/ && cp "$from/tokenizer.json" runs/cooldown/
printf 'checkpoint,step,phase\nstep000010,10,stable\nstep000020,20,stable\n' >runs/base/trajectory.csv
printf 'checkpoint,step,phase,parent\nstep000030,30,decay,base\n' >runs/cooldown/trajectory.csv
init runs --text text.txt --out runs.yaml
has out "base: 2 checkpoints, in trajectory.csv" # step 0 is not in the table
plans runs.yaml
has runs.yaml '    trajectory: "runs/cooldown/trajectory.csv"'
has runs.yaml '    branch_of: "base"'
[ "$(grep -c 'name: "base"' runs.yaml)" = 1 ] && [ ! -e runs-base.csv ] || fail "runs with tables: $(cat runs.yaml)"
# Beside a training: what is not finished, branches without a checkpoint; the models that an edited sweep file lacks.
mkdir runs/late runs/later runs/old && echo '{"parent": "base"}' | tee runs/late/run.json >runs/later/run.json && echo '{}' >runs/old/run.json
cp runs/late/run.json runs/cooldown && touch runs/cooldown/end.json && echo '{}' >runs/base/run.json
sed -i '/cooldown/d; /branch_of/d; s/bits: .*/bits: [2]/' runs.yaml && cp runs.yaml edited.yaml
refuses "runs.yaml is there already; --force replaces it" runs/base runs/cooldown --text text.txt --out runs.yaml
[ "$(cat out)" = 'runs.yaml lacks these models:
  # 1 checkpoint of smollm3, 1.05M parameters, 1024 positions
  - name: "cooldown"
    trajectory: "runs/cooldown/trajectory.csv"
    path: "runs/cooldown/{checkpoint}"
    branch_of: "base"' ] && cmp -s runs.yaml edited.yaml || fail "models to add: $(cat out)"
init runs --text text.txt --out runs.yaml --force
has err "qtraj: warning: base: not finished; 2 branches of it have no checkpoint yet"
has err "qtraj: warning: old: no checkpoint yet"
[ "$(grep -c warning err)" = 2 ] || fail "beside a training: $(cat err)"
# A table against the order of training is told of.
printf 'checkpoint,step,phase\nstep000020,20,stable\nstep000010,10,stable\n' >runs/base/trajectory.csv
plans runs.yaml
grep -q "base/trajectory.csv:3: step 10 stands behind step 20" err || fail "falling steps: $(cat err)"
finish
