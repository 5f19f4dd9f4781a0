#!/usr/bin/env bash
# Trellis codes and lattices packed by `--format qtraj`: the folder gives the reported loss, its weights are those that were measured, bit for
# bit, and what numpy makes of the file; it takes the bits that are counted. A sweep exports, reads and reuses it. Bad files are refused.
. "$SOURCE/tests/tools/lib.sh"
need_python json numpy h5py
models=$SOURCE/tests/fixtures/models
ids=$models/llama/reference.safetensors:input_ids

# blocks NAME MODEL FLAG...: quantizes, packs, evaluates, and writes what the folder's weights are in f32.
blocks() {
    local name=$1 model=$models/$2
    shift 2
    "$QTRAJ" quantize "$model" "$@" --calibration-ids "$model/reference.safetensors:input_ids" --evaluation-ids "$model/reference.safetensors:input_ids" \
        --json --format qtraj --out "$work/$name" --weights "$work/$name.measured" >"$work/$name.reported" 2>"$work/err" ||
        fail "$name: $(cat "$work/err")"
    "$QTRAJ" eval "$work/$name" --ids "$model/reference.safetensors:input_ids" --json >"$work/$name.read" 2>"$work/err" || fail "$name: $(cat "$work/err")"
    "$QTRAJ" average "$work/$name.f32" "$work/$name" >"$work/out" 2>"$work/err" || fail "$name: average: $(cat "$work/err")"
}
fast=(--method trellis --trellis-window 8)
blocks 1mad llama --bits 2 --method trellis --trellis-window 10
blocks 3inst llama "${fast[@]}" --bits 3 --trellis-code 3inst
blocks hyb gpt_neox_parallel "${fast[@]}" --bits 2 --trellis-code hyb
blocks four olmo2 "${fast[@]}" --bits 4
blocks plain llama "${fast[@]}" --bits 1 --no-incoherence
for bits in 2 3 4; do blocks "e8p$bits" llama --method e8p --bits $bits; done

PYTHONPATH=$SOURCE/tests/tools "$python" - "$work" <<'PYTHON' || fail "what is packed"
import json, sys

import numpy as np

from read_blocks import weights
from safetensors_reader import load

folder = sys.argv[1]
for name in ("1mad", "3inst", "hyb", "four", "plain", "e8p2", "e8p3", "e8p4"):
    reported, read = (json.load(open(f"{folder}/{name}.{kind}")) for kind in ("reported", "read"))
    assert reported["loss"] == read["loss"] != reported["baseline_loss"], (name, reported["loss"], read["loss"])
    measured, own = load(f"{folder}/{name}.measured"), load(f"{folder}/{name}.f32/model.safetensors")
    decoded, taken = weights(f"{folder}/{name}")
    assert set(decoded) == set(measured) and len(decoded) > 6
    for key, w in measured.items():
        assert own[key].tobytes() == w.tobytes(), (name, key)
        assert np.abs(decoded[key] - w).max() < 2e-6 * np.abs(w).max(), (name, key, np.abs(decoded[key] - w).max())
    bits = 8 * sum(taken.values()) / sum(w.size for w in measured.values())
    assert abs(bits - reported["bits_per_weight"]) < 1e-12, (name, bits, reported["bits_per_weight"])
PYTHON
grep -q '^qtraj eval FOLDER' "$work/1mad/README.md" && ! grep -q vllm "$work/1mad/README.md" || fail "the card: $(cat "$work/1mad/README.md")"

# --- the layout of QTIP's authors: their formula gives the weights that were measured (with their program itself: within 6e-7, hyb in f16 3e-4) ---
"$python" "$SOURCE/tests/bench/make_checkpoint.py" "$QTRAJ" "$work/wide" --family llama --hidden 64 --layers 1 --heads 4 --kv-heads 2 --intermediate 128 \
    --vocab 200 --dtype F32 && "$python" "$SOURCE/tests/bench/make_ids.py" "$work/ids.safetensors" 200 e=2,32 || fail "make_checkpoint"
layout() { "$SOURCE/analysis/qtip_layout.py" "$work/$1" --out "$work/$1.qtip" 2>"$work/err"; }
for code in 1mad hyb; do
    "$QTRAJ" quantize "$work/wide" "${fast[@]}" --bits 2 --trellis-code $code --calibration-ids "$work/ids.safetensors:e" --format qtraj --out "$work/layout-$code" \
        --weights "$work/layout-$code.measured" >"$work/out" 2>"$work/err" && layout "layout-$code" || fail "layout $code: $(cat "$work/err")"
done
PYTHONPATH=$SOURCE/tests/tools "$python" - "$work" <<'PYTHON' || fail "the authors' layout"
import json, sys
import numpy as np
from read_blocks import hadamard, values_1mad, values_hyb
from safetensors_reader import load
for code, values in (("1mad", 1), ("hyb", 2)):
    folder = f"{sys.argv[1]}/layout-{code}"
    t, q = load(f"{folder}.qtip/model.safetensors"), json.load(open(f"{folder}.qtip/config.json"))["quip_params"]
    assert q["L"] == 8 and q["K"] == 2 and q["V"] == values and q["skip_list"] == []
    measured = load(f"{folder}.measured")
    assert len(measured) == 7
    for name, w in measured.items():
        tile, su, sv = (t[name[:-len("weight")] + part] for part in ("trellis", "SU", "SV"))
        bits = np.array([[int(b) for word in row for b in f"{int(word) & 0xFFFF:016b}"] for row in tile])
        bits = np.hstack([bits, bits[:, :6]])  # tail-biting
        states = np.array([[int("".join(map(str, row[i:i + 8])), 2) for i in range(0, 512, 2 * values)] for row in bits])
        c = values_1mad(states) if code == "1mad" else values_hyb(states, t[name[:-len("weight")] + "tlut"].astype(float))
        rows, cols = w.shape
        c = c.reshape(rows // 16, cols // 16, 16, 16).transpose(0, 2, 1, 3).reshape(rows, cols)
        mixed = sv[:, None] * (hadamard(rows) @ c @ hadamard(cols)) * su
        assert np.abs(mixed - w).max() < 2e-6 * np.abs(w).max(), (name, np.abs(mixed - w).max())
PYTHON
# unwritten FOLDER WHY: qtip_layout.py refuses it, and leaves nothing.
unwritten() {
    ! layout "$1" && [ "$(wc -l <"$work/err")" = 1 ] && grep -qF -- "$2" "$work/err" || fail "layout of $1: $(cat "$work/err")"
    [ "$1" = layout-1mad ] || ! compgen -G "$work/$1.qtip*" >"$work/out" || fail "layout of $1 leaves $(cat "$work/out")"
}
unwritten 1mad "has 96 channels on a side"
unwritten four "the model is olmo2"
unwritten e8p2 "holds no trellis codes"
unwritten plain "holds no trellis codes"
unwritten layout-1mad "exists"
cp -r "$work/layout-hyb" "$work/kernel" && sed -i 's/"window": 8/"window": 16/' "$work/kernel/config.json"
unwritten kernel "in the order of the authors' GPU kernel"

# --- in a sweep: exported by one process and by a group of two, read for a text added later, and measured as a stored variant ---
printf 'checkpoint,step\nllama,1\n' >"$work/t.csv"
cp -r "$models/llama" "$work/llama"
cat >"$work/sweep.yaml" <<YAML
name: blocks
results: results.h5
models: [{name: m, trajectory: t.csv, path: "{checkpoint}"}]
bits: [2]
methods: [{method: trellis, trellis_window: 8}, {method: e8p}]
calibration: {ids: "$ids"}
evaluation: [{name: own, ids: "$ids"}]
export: [{out: exports, format: qtraj}]
YAML
run() { "$QTRAJ" run "$work/sweep.yaml" "$@" >"$work/out" 2>"$work/err" || fail "run $*: $(cat "$work/err")"; }
run
mv "$work/exports" "$work/first"
launch 120 3 run "$work/sweep.yaml" --set "results=$work/groups.h5" --set run.ranks_per_group=2 || fail "groups: $(cat "$work/err")"
diff -r "$work/first" "$work/exports" || fail "groups write other files"
two='evaluation=[{name: own, ids: "'$ids'"}, {name: two, ids: "'$ids'", samples: 1}]'
run --set "$two"
grep -q '2 cells of them are read' "$work/err" || fail "exports are not read: $(cat "$work/err")"
run --set "$two" --set 'export=[]' --set "results=$work/again.h5"
run --set "results=$work/stored.h5" --set 'export=[]' --set 'methods=[{name: trellis, method: stored, path: first/m/llama/trellis-2bit, bits: [2]}, {name: e8p, method: stored, path: first/m/llama/e8p-2bit, bits: [2]}]'
for name in groups stored; do "$QTRAJ" show "$work/$name.h5" --json >"$work/$name.rows" || fail "show $name"; done
"$python" - "$work" <<'PYTHON' || fail "cells of the sweep"
import json, sys, h5py
first, again = (h5py.File(f"{sys.argv[1]}/{name}.h5") for name in ("results", "again"))
for name in ("loss", "loss_relative", "kl_divergence", "bits_per_weight"):
    assert first[name][()].tobytes() == again[name][()].tobytes(), name
own, stored = ({row["quantizer"]: row for row in json.load(open(f"{sys.argv[1]}/{name}.rows"))} for name in ("groups", "stored"))
for method in ("trellis", "e8p"):
    for key in ("loss", "loss_relative", "kl_divergence", "bits_per_weight", "weight_distance"):
        assert own[method][key] == stored[method][key], (method, key, own[method][key], stored[method][key])
PYTHON

# --- what cannot be packed, and files that cannot be read ---
# refuse NAME CODE PATTERN COMMAND ...
refuse() {
    local name=$1 code=$2 pattern=$3 got
    shift 3
    "$QTRAJ" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ $got = "$code" ] && [ "$(grep -c 'error:' "$work/err")" = 1 ] && grep -qF -- "$pattern" "$work/err" || fail "$name: exit code $got: $(cat "$work/err")"
}
refuse "gptq" 2 "format qtraj cannot hold it: the weights of method gptq are no codes of blocks" \
    quantize "$models/llama" --method gptq --bits 4 --format qtraj --out "$work/never" --calibration-ids "$ids"
refuse "trellis in gptq" 2 "the weights of method trellis are no codes of integer grids" \
    quantize "$models/llama" "${fast[@]}" --bits 2 --format gptq --out "$work/never" --calibration-ids "$ids"

# broken NAME PATTERN CODE: a copy of the folder `hyb` that Python changes: config q, header h of model.safetensors, its data; refused.
broken() {
    rm -rf "$work/bad" && cp -r "$work/hyb" "$work/bad"
    "$python" - "$work/bad" "$3" <<'PYTHON' || fail "$1: not broken"
import json, sys
folder, change = sys.argv[1:]
config, raw = json.load(open(f"{folder}/config.json")), open(f"{folder}/model.safetensors", "rb").read()
n = int.from_bytes(raw[:8], "little")
q, h, data = config["quantization_config"], json.loads(raw[8:8 + n]), bytearray(raw[8 + n:])
codes = next(name for name in h if name.endswith(".codes"))
stem = codes[:-len("codes")]
begin = h[stem + "scale"]["data_offsets"][0]
exec(change)
json.dump(config, open(f"{folder}/config.json", "w"))
text = json.dumps(h).encode()
open(f"{folder}/model.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + data)
PYTHON
    refuse "$1" 2 "$2" eval "$work/bad" --ids "$ids"
}
broken "another code" 'quantization_config.code is "zip"; expected 1mad, 3inst, hyb or e8p' 'q["code"] = "zip"'
broken "bits" "hyb has no codes of 5 bits" 'q["bits"] = 5'
broken "window" "hyb of 2 bits has no window of 7" 'q["window"] = 7'
broken "a long window" "hyb of 2 bits has no window of 17" 'q["window"] = 17'
broken "a short table" "quantization_config.table: 1024 numbers are expected" 'q["table"].pop()'
broken "a word in the table" "quantization_config.table: number 3 is none" 'q["table"][3] = "x"'
broken "no signs" "no tensor" 'h[stem + "sign"] = h.pop(stem + "signs")'
broken "another width" "is expected for the weight's size" 'q["bits"] = 1; q["window"] = 16'
broken "signs of no use" "it would change what a packed linear computes" 'q["incoherence"] = False'
broken "another type" "packed codes are U8" 'h[codes]["dtype"] = "I8"'
broken "no number" "is not finite" 'data[begin:begin + 4] = b"\xff" * 4'
broken "a truncated file" "model.safetensors" 'del data[-1:]'
finish
