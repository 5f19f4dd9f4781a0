# Failures whose input has changed are tried again by themselves, and only those: each kind of broken checkpoint, a curvature text
# without a tokenizer, a surface and a prediction that lack a checkpoint. Nothing is done again while nothing has changed.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy

fixed_text "$work/text.txt"
good=$quickstart/trajectory/step000100
store=$work/store
mkdir "$store"
faults=(truncated header_length shape missing nan)
for fault in "${faults[@]}"; do
    "$python" "$SOURCE/tests/tools/break_checkpoint.py" "$good" "$store/$fault" "$fault"
done
for name in config noconfig noweights tokenizer whole; do cp -r "$good" "$store/$name"; done
for name in "$store"/*; do cp "$quickstart/trajectory/tokenizer.json" "$name"; done
echo '{"model_type": "llama",' >"$store/config/config.json"
rm "$store/noconfig/config.json" "$store/noweights/model.safetensors"
echo '{"model": ' >"$store/tokenizer/tokenizer.json"
names=(whole folder config noconfig noweights tokenizer "${faults[@]}")
{
    echo checkpoint,step,tokens,learning_rate,phase
    step=0
    for name in "${names[@]}"; do echo "$name,$((step++)),1,0.1,stable"; done
} >"$work/trajectory.csv"
cat >"$work/sweep.yaml" <<YAML
name: retry
results: retry.h5
models: [{name: small, trajectory: trajectory.csv, path: "store/{checkpoint}"}]
bits: [4]
methods: [{method: gptq, group_size: 64}]
calibration: {text: text.txt, length: 64, samples: 2}
evaluation: [{name: text, text: text.txt, length: 64, skip: 2, samples: 2}]
curvature: {critical: true, sharpness: none, trace: 1, sequences: 1, length: 64}
surfaces: [{name: plane, plane: random, model: small, checkpoint: truncated, columns: 2, rows: 2, radius: 0.1}]
YAML

# go WHAT: runs the sweep, whatever cells fail
go() {
    launch 240 1 run "$work/sweep.yaml"
    local code=$?
    [ $code = "$1" ] || fail "$2: exit code $code: $(cat "$work/err")"
}

# failed: lines "checkpoint kind" of the failed records, and of the cells that lack a part
failed() {
    "$QTRAJ" status "$work/retry.journal" --json | "$python" -c "
import json, sys
status = json.load(sys.stdin)
print(sorted({r.get('checkpoint', r.get('surface')) for r in status['failures']}))
print('in part', sorted({r['checkpoint'] for r in status['in_part']}))"
}

go 1 "all broken"
failed >"$work/broken"
cat "$work/broken"
for name in "${names[@]:1}"; do
    [ $name = nan ] || grep -q "'$name'" "$work/broken" || fail "$name did not fail: $(cat "$work/broken")"
done
go 1 "nothing changed"
grep -q "nothing to do" "$work/err" || fail "tried again though nothing has changed: $(cat "$work/err")"

# One after the other would be slow: all are repaired at once, the surface's checkpoint among them.
for name in config noconfig; do cp "$good/config.json" "$store/$name/"; done
for name in noweights "${faults[@]}"; do cp "$good/model.safetensors" "$store/$name/"; done
cp -r "$good" "$store/folder"
for name in folder tokenizer; do cp "$quickstart/trajectory/tokenizer.json" "$store/$name/"; done
go 0 "all repaired"
head -n 4 "$work/err"
failed >"$work/left"
printf '[]\nin part []\n' | diff - "$work/left" || fail "still failed after the repair: $("$QTRAJ" status "$work/retry.journal")"
go 0 "all done"
grep -q "nothing to do" "$work/err" || fail "done again: $(cat "$work/err")"

# The same numbers everywhere: it is the same checkpoint.
"$python" - "$work/retry.h5" <<'PYTHON' || fail "numbers"
import h5py, sys
cells = h5py.File(sys.argv[1])["cells"]
print(sorted(set(cells["loss"][:])), sorted(set(cells["status"][:])))
sys.exit(len(set(cells["loss"][:])) != 1 or set(cells["status"][:]) != {1})
PYTHON
finish
