#!/usr/bin/env bash
# Models that are rotated before they are quantized: the same loss without quantization, another with it, whatever the ranks and
# restarts; GPTQ on the rotated model; what is recorded; what does not go with it.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
export TMPDIR=$work OMPI_MCA_btl_vader_backing_directory=$work

quarot='activations: {bits: 4, clip: 0.9, rotation: hadamard}, keys: {bits: 4, clip: 0.95, rotation: hadamard}, values: {bits: 4, clip: 0.95}'
quickstart_sweep '1p;9p' <<YAML
name: rotation
results: alone.h5
bits: [4]
methods:
  - {name: turned, method: none, rotation: [R4, R1, R2]}
  - {name: online, method: none, rotation: [R1, R2], activations: {bits: 16, rotation: hadamard}}
  - {method: rtn, group_size: 64}
  - {name: rtn-turned, method: rtn, group_size: 64, rotation: [R1, R2, R4]}
  - {name: rtn-seed, method: rtn, group_size: 64, rotation: [R1, R2, R4], rotation_seed: 1}
  - {name: turned-random, method: none, rotation: [Q1, R2, R4]}
  - {name: rtn-random, method: rtn, group_size: 64, rotation: [Q1, R2, R4]}
  - {name: rtn-learned, method: rtn, group_size: 64, rotation: [R1, R2, R4], rotation_steps: 3, rotation_sequences: 4}
  - {name: gptq-turned, method: gptq, group_size: 64, rotation: [R1, R2, R4]}
  - {name: quarot, method: gptq, group_size: -1, narrow_range: true, range_search: 2.4, rotation: [R1, R2, R4], $quarot}
  - {name: quarot-calibrated, method: gptq, group_size: -1, narrow_range: true, rotation: [R1, R2, R4], ${quarot/hadamard/hadamard, calibrated: true}}
  - {name: rtn-quarot, method: rtn, group_size: -1, rotation: [R1, R2, R4], $quarot}
calibration: {text: text.txt, length: 128, samples: 8}
evaluation: [{name: own, text: text.txt, length: 128, skip: 8, samples: 8}]
YAML

start=$(date +%s.%N)
launch 120 3 run "$work/sweep.yaml" || fail "alone: exit code $?: $(cat "$work/err")"
end=$(date +%s.%N)
kill_after "$(awk -v a="$start" -v b="$end" 'BEGIN { printf "%.3f", (b - a) / 2 }')" "$work/killed.h5"
launch 120 2 run "$work/sweep.yaml" --set "results=$work/killed.h5" || fail "restart: exit code $?: $(cat "$work/err")"
compare alone killed
launch 120 3 run "$work/sweep.yaml" --set "results=$work/group.h5" --set run.ranks_per_group=2 || fail "group: exit code $?: $(cat "$work/err")"

"$python" - "$work/alone.h5" "$work/group.h5" <<'PYTHON' || fail "the cubes"
import sys
import h5py
import numpy as np

losses = []
for path in sys.argv[1:]:
    cube = h5py.File(path)
    names = [name.decode() for name in cube["quantizer"]]
    loss = np.nan_to_num(cube["loss"][0, :, :, :, 0], nan=0).sum(1)  # (checkpoint, quantizer)
    base = cube["baseline_loss"][0, :, 0]
    at = {name: loss[:, i] for i, name in enumerate(names)}
    losses.append(at)
    print(base.tolist(), {name: (at[name] - base).tolist() for name in at})
    for name in ("turned", "turned-random", "online"):
        assert (abs(at[name] - base) < 1e-6).all() and (at[name] != base).all(), name
    for name in set(names) - {"turned", "turned-random", "online"}:
        assert (abs(at[name] - base) > 1e-5).all(), name
    assert (at["rtn-turned"] != at["rtn"]).all() and (at["rtn-turned"] != at["rtn-seed"]).all() and (at["rtn-turned"] != at["rtn-random"]).all()
    assert at["rtn-learned"][-1] < at["rtn-turned"][-1]
    assert (at["quarot"] != at["quarot-calibrated"]).all()
    assert at["rtn-quarot"][-1] > at["rtn-turned"][-1] and at["gptq-turned"][-1] < at["rtn-turned"][-1]
for name in losses[0]:
    same = losses[0][name] == losses[1][name] if name.startswith("rtn") else abs(losses[0][name] - losses[1][name]) < 1e-3
    assert same.all(), ("ranks of a group", name)
PYTHON
grep -q '"rotation": *"R1 [0-9]*, R2 [0-9]*, R4 [0-9×  ]*, learned in 3 steps"' "$work"/alone.*journal* || fail "the record does not tell what is learned"
grep -q '"rotation": *"R1 [0-9]*, R2 [0-9]*, R4 [0-9×  ]*, heads [0-9]*"' "$work"/alone.*journal* || fail "the record does not tell the orders"

# refused MESSAGE ARGUMENT ...
refused() {
    "$QTRAJ" plan "$work/sweep.yaml" --set "results=$work/new.h5" "${@:2}" >"$work/out" 2>"$work/err" && fail "$*: accepted"
    grep -qF "$1" "$work/err" || fail "$*: $(cat "$work/err")"
}
refused 'rtn-turned quantizes the model in another basis' --set "export=[{out: $work/x, quantizer: rtn-turned}]"
refused 'grids and rotations are in f32' --set run.rounding=bf16
refused 'calibration: missing; method rtn with rotation_steps needs calibration text' --set 'methods=[{method: rtn, rotation: [R1], rotation_steps: 3}]' --set calibration=
refused 'rotation_steps: R1 or R2 are learned, of a method with integer grids' --set 'methods=[{method: nf4, rotation: [R1], rotation_steps: 3}]'
refused 'rotation_steps: R1 or R2 are learned, of a method with integer grids' --set 'methods=[{method: rtn, rotation: [R4], rotation_steps: 3}]'
refused 'rotation_rate' --set 'methods=[{method: rtn, rotation: [R1], rotation_rate: 3}]'
refused 'turned, model quickstart: rotation: R1: the norms of olmo2 come after attention and MLP' --set "models[0].path=$SOURCE/tests/fixtures/models/olmo2"
finish
