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
refused 'activations.clamp_zero: expected symmetric: false' --set 'methods[1].activations.clamp_zero=true'
refused 'activations.o_group: expected granularity: token without outliers' --set 'methods[1].activations.o_group=32' --set 'methods[1].activations.granularity=tensor'
refused 'methods: none-a8, model quickstart: activations.o_group: 60 does not divide 128 columns' --set 'methods[1].activations.o_group=60'
refused 'none leaves the weights as they are' --set 'curvature.second_order=total'
refused 'rtn-kv4 quantizes activations, keys or values too, so that its weights alone' --set 'export=[{out: x, quantizer: rtn-kv4}]'

# Numbers that no grid holds, or of int8 no 16-bit float: the cells fail with the layer's name, and nothing else does.
quickstart=$SOURCE/configs/quickstart
for fault in overflow large; do "$python" "$SOURCE/tests/tools/break_checkpoint.py" "$quickstart/trajectory/step001200" "$work/$fault" $fault; done
printf 'checkpoint,step\noverflow,1\nlarge,2\n' >"$work/overflow.csv"
cat >"$work/overflow.yaml" <<YAML
name: overflow
results: overflow.h5
models: [{name: m, trajectory: overflow.csv, path: "{checkpoint}", tokenizer: "$quickstart/trajectory/tokenizer.json"}]
methods: [{method: rtn, group_size: 64, bits: [4]}, {method: none, activations: {bits: 8}}, {name: shared, method: none, activations: {bits: 8, granularity: tensor}}, {method: int8, bits: [8], outlier_threshold: 0}]
evaluation: [{name: own, text: text.txt, length: 128, samples: 3}]
YAML
launch 120 2 run "$work/overflow.yaml"
[ $? = 1 ] || fail "overflow: $(cat "$work/err")"
"$QTRAJ" status "$work/overflow.h5" >"$work/out"
why='model.layers.0.mlp.down_proj.weight: inputs that cannot be quantized: a number is NaN or infinite'
for cells in 'm overflow (none-a8 16, shared 16)' 'm large (int8 8)'; do grep -qF "$cells: $why" "$work/out" || fail "overflow: $(cat "$work/out")"; done
grep -qE '^m +2 +8 +4 +4 ' "$work/out" || fail "overflow: $(cat "$work/out")"

# Widths in lists, ranges and outlier channels of the calibration text, floats, a cache: on one rank and on a group the same.
quickstart_sweep '1p;9p' <<YAML
name: grids
results: alone.h5
methods:
  - {method: rtn, group_size: 64, W: [16, 4], A: [16, 8], activations: {granularity: static, down_bits: 4}}
  - {method: none, activations: {bits: 4, symmetric: false, clamp_zero: true, group_size: 32, outliers: 16, outlier_bits: 8, outlier_score: mean}}
  - {name: atom, method: rtn, bits: [4], group_size: 32, range_factor: 0.85, scale_rows: 2, outlier_columns: 16, outlier_bits: 8, outlier_score: squares,
     activations: {bits: 4, clip: 0.9, group_size: 32, outliers: 16, outlier_bits: 8, outlier_score: squares}, keys: {bits: 4, before_rope: true}, values: {bits: 4}}
  - {name: quik, method: gptq, bits: [4], group_size: -1, narrow_range: true, range_search: 2.4, outlier_columns: 16, down_bits: 8,
     activations: {bits: 4, symmetric: false, outliers: 16, down_bits: 8}}
  - {name: relative, method: gptq, bits: [4], group_size: -1, narrow_range: true, range_search: 2.4, outlier_columns: 16, outlier_relative: true, outlier_least: 1e-9,
     activations: {bits: 4, symmetric: false, outliers: 16, outlier_relative: true, outlier_least: 1e-9}}
  - {name: below, method: rtn, bits: [4], group_size: -1, outlier_columns: 16, outlier_least: 1e9, down_bits: 4, activations: {bits: 4, outliers: 16, outlier_least: 1e9}}
  - {name: without, method: rtn, bits: [4], group_size: -1, down_bits: 4, activations: {bits: 4}}
  - {name: fp8, method: none, activations: {bits: 8, codes: fp8_e4m3}, keys: {bits: 8, codes: fp8_e5m2}}
  - {name: kivi, method: none, keys: {bits: 2, kind: channel, group: 16, residual: 32}, values: {bits: 2, residual: 32}}
  - {name: whole, method: none, keys: {bits: 2, kind: channel, group: 16, residual: 128}, values: {bits: 2, residual: 128}}
calibration: {text: text.txt, length: 64, samples: 4}
evaluation: [{name: own, text: text.txt, length: 128, skip: 8, samples: 4}]
YAML
launch 120 1 run "$work/sweep.yaml" || fail "grids: exit code $?: $(cat "$work/err")"
launch 120 3 run "$work/sweep.yaml" --set "results=$work/group.h5" --set run.reproducible=true --set run.ranks_per_group=2 || fail "grids, a group: exit code $?: $(cat "$work/err")"
"$python" - "$work/alone.h5" "$work/group.h5" <<'PYTHON' || fail "the cube of grids"
import sys
import h5py
import numpy as np

alone, group = (h5py.File(name) for name in sys.argv[1:])
names = [name.decode() for name in alone["quantizer"]]
assert names == ["none-a8", "rtn", "rtn-a8", "none-a4", "atom", "quik", "relative", "below", "without", "fp8", "kivi", "whole"], names
shapes = [(128, 128), (64, 128), (64, 128), (128, 128), (384, 128), (384, 128), (128, 384)]  # q, k, v, o, gate, up, down
def stored(bits, group, outlier, index, down, relative=False):
    total = 0
    for rows, columns in shapes:
        n = 16 * (columns // 128) if relative else 16
        own, width = columns - n, down if columns == 384 else bits
        scale = -(-own // group) * (16 + width) / (2 if outlier == 8 else 1) + (16 if outlier == 8 else 0)
        total += rows * (own * width + n * outlier + scale) + 32 * (columns if index == "column" else n)
    return total / sum(rows * columns for rows, columns in shapes)
width = {n: alone["bits_per_weight"][0, 0, list(alone["bits"]).index(4), i] for i, n in enumerate(names)}
print(width["atom"], width["quik"])
assert abs(width["atom"] - stored(4, 32, 8, "column", 4)) < 1e-6 and abs(width["quik"] - stored(4, 384, 16, "outlier", 8)) < 1e-6
assert abs(width["relative"] - stored(4, 384, 16, "outlier", 4, True)) < 1e-6
assert width["below"] == width["without"], "no score is above 1e9"
loss, other = (np.nan_to_num(c["loss"][0, 0, :, :, 0], nan=0).sum(0) for c in (alone, group))
base = alone["baseline_loss"][0, 0, 0]
print(dict(zip(names, (loss / base - 1).round(6))))
assert (loss > 0).all() and abs(loss - other).max() < 1e-5, (loss - other)
at = dict(zip(names, loss))
assert at["whole"] == base and all(at[n] != base for n in names if n != "whole"), "a text within the residual has the loss without quantization"
assert at["below"] == at["without"] and at["relative"] != at["quik"]
assert abs(at["fp8"] / base - 1) < 0.01 and abs(at["kivi"] / base - 1) < 0.01
PYTHON
refused 'calibration: missing; method none with activations.granularity: static needs calibration text' --set calibration=null
refused 'calibration: missing; method none with activations.outliers needs calibration text' --set calibration=null --set 'methods[0].activations.granularity=token'
refused 'calibration: missing; method rtn with outlier_columns needs calibration text' --set calibration=null --set 'methods=[{method: rtn, bits: [4], outlier_columns: 16}]'
refused 'methods: atom, model quickstart: outlier_columns: 128 of 128 columns: expected fewer' --set 'methods[2].outlier_columns=128'
refused 'range_factor: expected a number above 0 up to 1' --set 'methods[2].range_factor=0'
refused 'outlier_columns: the columns are ordered by their inputs' --set 'methods[3].order=activation'
refused 'outlier_columns: packed formats have one width' --set 'export=[{out: x, quantizer: atom, format: gptq}]' --set 'methods[2].activations=null' --set 'methods[2].keys=null' --set 'methods[2].values=null'

# Where bytes are multiplied as such, the same cells without: the same keys, losses up to codes that are at a tie, another fingerprint.
ONEDNN_MAX_CPU_ISA=AVX512_CORE launch 120 1 run "$work/sweep.yaml" --set "results=$work/simulated.h5" || fail "simulated: exit code $?: $(cat "$work/err")"
"$python" - "$work/alone.h5" "$work/simulated.h5" <<'PYTHON' || fail "the cube of integers"
import sys
import h5py
import numpy as np

here, simulated = (h5py.File(name) for name in sys.argv[1:])
words = {str(x).split("; integers ")[1].split(";")[0] for x in simulated["cells/fingerprint"].asstr()[:].ravel() if x}
bytes_too = {str(x).split("; integers ")[1].split(";")[0] for x in here["cells/fingerprint"].asstr()[:].ravel() if x} != {"simulated"}
assert words == {"simulated"}, words
assert sorted(here["cells/key"].asstr()[:].ravel()) == sorted(simulated["cells/key"].asstr()[:].ravel())
at = [name.decode() for name in here["quantizer"]].index("rtn-a8")
loss, other = (c["loss"][0, 0, :, at, 0] for c in (here, simulated))
both = np.isfinite(loss)
print("integers:", bytes_too, loss[both] / other[both] - 1)
assert both.sum() == 1 and abs(loss[both] / other[both] - 1).max() < 1e-3
assert (loss[both] != other[both]).all() == bytes_too
rest = np.arange(len(here["quantizer"])) != at
assert np.array_equal(here["loss"][0, 0][:, rest], simulated["loss"][0, 0][:, rest], equal_nan=True), "what has no codes has the same bits"
PYTHON
finish
