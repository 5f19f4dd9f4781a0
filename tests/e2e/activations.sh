#!/usr/bin/env bash
# Weights at 16 and 4 bits x inputs of linears at 16, 8 and 4 x keys and values at 16 and 4: one sweep, which is killed and goes on
# with another number of workers to the same bits; the cube's coordinates; what does not go with it.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
export TMPDIR=$work OMPI_MCA_btl_vader_backing_directory=$work

methods=
for w in 'method: none' 'method: rtn, group_size: 64, bits: [4]'; do
    for a in '' ', activations: {bits: 8}' ', activations: {bits: 4, clip: 0.9}'; do
        for kv in '' ', keys: {bits: 4, clip: 0.95, rotation: hadamard}, values: {bits: 4, clip: 0.95}'; do
            [ "$w$a$kv" = 'method: none' ] || methods+="{$w$a$kv}, "
        done
    done
done
quickstart_sweep '1p;2p;9p' <<YAML
name: activations
results: undisturbed.h5
methods: [${methods%, }]
evaluation: [{name: own, text: text.txt, length: 128, skip: 8, samples: 8}]
YAML

start=$(date +%s.%N)
launch 120 3 run "$work/sweep.yaml" || fail "undisturbed: exit code $?: $(cat "$work/err")"
end=$(date +%s.%N)
for at in 0.4 0.7; do
    kill_after "$(awk -v n="$at" -v a="$start" -v b="$end" 'BEGIN { printf "%.3f", (b - a) * n }')" "$work/killed.h5"
done
launch 120 2 run "$work/sweep.yaml" --set "results=$work/killed.h5" || fail "restart: exit code $?: $(cat "$work/err")"
"$python" "$SOURCE/tests/tools/compare_cubes.py" "$work/undisturbed.h5" "$work/killed.h5" || fail "the cubes differ"

"$python" - "$work/undisturbed.h5" <<'PYTHON' || fail "the cube"
import sys
import h5py
import numpy as np

cube = h5py.File(sys.argv[1])
bits = {name.decode(): [int(cube[f"{k}_bits"][i]) for k in ("activation", "key", "value")] for i, name in enumerate(cube["quantizer"])}
assert len(bits) == 11 and bits["none-a8"] == [8, 16, 16] and bits["none-kv4"] == [16, 4, 4] and bits["rtn-a4-kv4"] == [4, 4, 4], bits
assert bits["rtn"] == [16, 16, 16] and list(cube["bits"]) == [4, 16]
assert "activation_bits key_bits value_bits" in cube["loss"].attrs["coordinates"]
loss = np.nan_to_num(cube["loss"][0, :, :, :, 0], nan=0).sum(1)  # (checkpoint, quantizer)
base = cube["baseline_loss"][0, :, 0]
at = {name: loss[:, i] / base - 1 for i, name in enumerate(bits)}
print({name: at[name].round(5).tolist() for name in at})
trained = slice(1, None)
assert (loss > 0).all() and all((abs(at[name]) > 0).all() for name in at)
assert all((abs(at["none-a8"]) < abs(at["none-a4"]))[trained]), "8 bits change less than 4"
assert all((abs(at["rtn-a8"] - at["rtn"]) < abs(at["rtn-a4"] - at["rtn"]))[trained])
assert (cube["bits_per_weight"][0, :, 1, 0] == 16).all() and (cube["weight_distance"][0, :, 1, 0] == 0).all(), "weights stay"
PYTHON

# A finished cell keeps its key when grids are added to another; a changed clip is another cell.
launch 120 1 run "$work/sweep.yaml" --set "results=$work/killed.h5" --set 'methods[0].keys.clip=0.9' || fail "clip: $(cat "$work/err")"
grep -q '2 visits, 2 cells to do' "$work/err" || fail "clip: $(cat "$work/err")"

# refused MESSAGE ARGUMENT ...
refused() {
    "$QTRAJ" plan "$work/sweep.yaml" --set "results=$work/new.h5" "${@:2}" >"$work/out" 2>"$work/err" && fail "$*: accepted"
    grep -qF "$1" "$work/err" || fail "$*: $(cat "$work/err")"
}
refused 'methods: none-kv4, model quickstart: values.group: 5 does not divide a head of' --set 'methods[0].values.group=5'
refused 'methods: none-a8, model quickstart: activations.group_size: 60 divides neither' --set 'methods[1].activations.group_size=60'
refused 'none leaves the weights as they are' --set 'curvature.second_order=total'
refused 'rtn-kv4 quantizes activations, keys or values too, so that its weights alone' --set 'export=[{out: x, quantizer: rtn-kv4}]'

# Numbers that no grid holds: the cells fail with the layer's name, and nothing else does.
quickstart=$SOURCE/configs/quickstart
"$python" "$SOURCE/tests/tools/break_checkpoint.py" "$quickstart/trajectory/step001200" "$work/overflow" overflow
cat >"$work/overflow.yaml" <<YAML
name: overflow
results: overflow.h5
models: [{name: m, path: overflow, tokenizer: "$quickstart/trajectory/tokenizer.json"}]
methods: [{method: rtn, group_size: 64, bits: [4]}, {method: none, activations: {bits: 8}}, {name: shared, method: none, activations: {bits: 8, granularity: tensor}}]
evaluation: [{name: own, text: text.txt, length: 128, samples: 3}]
YAML
launch 120 2 run "$work/overflow.yaml"
[ $? = 1 ] || fail "overflow: $(cat "$work/err")"
"$QTRAJ" status "$work/overflow.h5" >"$work/out"
grep -qF 'model.layers.0.mlp.down_proj.weight: inputs that cannot be quantized: a number is NaN or infinite' "$work/out" || fail "overflow: $(cat "$work/out")"
grep -q '2 failed' "$work/out" || fail "overflow: $(cat "$work/out")"
finish
