#!/usr/bin/env bash
# Checkpoints that others have quantized, as entries of a sweep: the numbers of `eval --reference`, with the file's own embedding and head;
# one that is missing or another model's fails alone, one that has changed is measured again.
. "$SOURCE/tests/tools/lib.sh"
need_python json

models=$SOURCE/tests/fixtures/gguf
ids=$models/types.safetensors:ids
quantized() { # OUT BITS
    "$QTRAJ" quantize "$models/llama.gguf" --method rtn --bits "$2" --group-size 32 --evaluation-ids "$ids" --out "$work/$1" "${@:3}" \
        >"$work/out" 2>"$work/err" || fail "quantize: $(cat "$work/err")"
}
quantized step7 4
quantized packed 4 --scale-dtype f16 --format compressed-tensors

# All that is outside the blocks becomes the file's own: a seventh larger.
"$python" - "$work/step7/model.safetensors" <<'PYTHON' || fail "changing it"
import array, json, sys
data = bytearray(open(sys.argv[1], "rb").read())
size = int.from_bytes(data[:8], "little")
header = json.loads(data[8:8 + size])
for name in ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"):
    assert header[name]["dtype"] == "F32"
    begin, end = (8 + size + at for at in header[name]["data_offsets"])
    data[begin:end] = array.array("f", [x * 8 / 7 for x in array.array("f", data[begin:end])]).tobytes()
open(sys.argv[1], "wb").write(data)
PYTHON

printf 'checkpoint,step\nllama.gguf,7\n' >"$work/table.csv"
cat >"$work/sweep.yaml" <<YAML
name: stored
results: sweep.h5
models: [{name: llama, trajectory: table.csv, path: "$models/{checkpoint}"}]
methods:
  - {method: rtn, group_size: 32, bits: [4]}
  - {name: own, method: stored, path: "step{step}", bits: [4]}
  - {name: packed, method: stored, path: packed, bits: [4]}
  - {name: file, method: stored, path: "$models/{checkpoint}", bits: [8]}
  - {name: missing, method: stored, path: "none/{model}/{checkpoint}", bits: [4]}
  - {name: other, method: stored, path: "$models/qwen3.gguf", bits: [8]}
evaluation: [{name: ids, ids: "$ids"}]
YAML
"$QTRAJ" plan "$work/sweep.yaml" >"$work/out" 2>&1 && fail "plan sees nothing missing"
grep -q "llama llama.gguf, missing will fail: $work/none/llama/llama.gguf: no such" "$work/out" || fail "plan: $(cat "$work/out")"
# Files of one model are not measured as another's.
sed 's/^models: \[\(.*\)\]$/models: [\1, {name: twin, trajectory: table.csv, path: "both\/{checkpoint}"}]/' "$work/sweep.yaml" >"$work/two.yaml"
"$QTRAJ" plan "$work/two.yaml" >"$work/out" 2>&1 && fail "two models: $(cat "$work/out")"
grep -q "methods: own: $work/step7 would be measured for model llama and for model twin; put {model} into its path" "$work/out" ||
    fail "two models: $(cat "$work/out")"
run() { "$QTRAJ" run "$work/sweep.yaml" "$@" >"$work/out" 2>&1; }
run
[ $? = 1 ] || fail "run: $(cat "$work/out")"
grep -q "qwen3.gguf: another model_type than" "$work/out" || fail "another model: $(cat "$work/out")"
grep -q "4/6 cells, 2 failed" "$work/out" || fail "run: $(cat "$work/out")"
for name in step7 packed; do
    "$QTRAJ" eval "$work/$name" --ids "$ids" --reference "$models/llama.gguf" --json >"$work/$name.json" 2>"$work/err" ||
        fail "eval: $(cat "$work/err")"
done
"$QTRAJ" show "$work/sweep.h5" --json >"$work/rows" || fail "show"
"$python" - "$work" <<'PYTHON' || fail "cells: $(cat "$work/rows")"
import json, sys
folder = sys.argv[1]
rows = {row["quantizer"]: row for row in json.load(open(f"{folder}/rows"))}
for name, file in (("own", "step7"), ("packed", "packed")):
    want = json.load(open(f"{folder}/{file}.json"))
    assert abs(rows[name]["loss"] - want["loss"]) < 1e-12
    for key, value in want["reference"].items():
        assert abs(rows[name][key] - value) < 1e-12, (name, key, rows[name][key], value)
assert abs(rows["own"]["loss"] - rows["rtn"]["loss"]) > 1e-3
assert abs(rows["packed"]["loss"] - rows["rtn"]["loss"]) < 1e-4  # scales in f16
assert rows["own"]["weight_distance"] == rows["rtn"]["weight_distance"]
assert rows["own"]["bits_per_weight"] == 32 and rows["packed"]["bits_per_weight"] == 4.5  # symmetric: no zeros
assert rows["file"]["loss_delta"] == 0 and rows["file"]["kl_divergence"] == 0 and rows["file"]["bits_per_weight"] == 8.5
PYTHON

run
grep -q "nothing to do" "$work/out" || fail "again: $(cat "$work/out")"
for name in step7 packed; do # the same in another form
    "$python" -c 'import json, sys; x = json.load(open(sys.argv[1])); x.pop("torch_dtype", 0); x["use_cache"] = False; json.dump(x, open(sys.argv[1], "w"))' "$work/$name/config.json"
done
run
grep -q "nothing to do" "$work/out" || fail "config.json written again: $(cat "$work/out")"
rm -r "$work/step7"
quantized step7 3
mkdir -p "$work/none/llama"
cp "$models/llama.gguf" "$work/none/llama"
run
grep -q "2/2 cells, 0 failed" "$work/out" || fail "a changed and a new file: $(cat "$work/out")"
launch 60 3 run "$work/sweep.yaml" --set results=ranks.h5 --set run.ranks_per_group=2
for results in sweep ranks; do "$QTRAJ" show "$work/$results.h5" --quantizer own >"$work/$results.txt"; done
cmp -s "$work/sweep.txt" "$work/ranks.txt" || fail "two ranks: $(cat "$work/sweep.txt" "$work/ranks.txt")"

printf 'export: [{out: exports, quantizer: own}]\n' | cat "$work/sweep.yaml" - >"$work/export.yaml"
"$QTRAJ" plan "$work/export.yaml" >"$work/out" 2>&1 && fail "export is accepted"
grep -q "a stored checkpoint has an embedding" "$work/out" || fail "export: $(cat "$work/out")"
finish
