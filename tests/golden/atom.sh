#!/usr/bin/env bash
# Atom's losses of a whole model, as its authors' code gives them (tests/fixtures/activations): outlier channels by scores of the
# full-precision model, rows of gate and up that share scales in the order of the last linear's columns. Alone, by two ranks, and in the least
# memory. Of the settings, those in which no rounding error of the reference's own moves a code.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
export PYTHONPATH=$SOURCE/tests/tools OMPI_MCA_ess_singleton_isolated=1
fixtures=$SOURCE/tests/fixtures ids=$SOURCE/tests/fixtures/activations/outliers.safetensors

weights='method: rtn, bits: [4], group_size: 16, narrow_range: true, range_factor: 0.85, scale_rows: 2, scale_dtype: f32, outlier_columns: 16'
inputs='bits: 4, clip: 0.9, group_size: 16, outliers: 16'
printf 'checkpoint\nllama\n' >"$work/one.csv"
cat >"$work/sweep.yaml" <<YAML
name: atom
results: atom.h5
models: [{name: llama, trajectory: one.csv, path: "$fixtures/models/{checkpoint}"}]
methods:
  - {name: W4A4KV16, $weights, outlier_bits: 8, outlier_score: squares, activations: {$inputs, outlier_bits: 8, outlier_score: squares}}
  - {name: W4A4KV16_fpkeeper, $weights, outlier_bits: 16, outlier_score: squares, activations: {$inputs, outlier_score: squares}}
calibration: {ids: "$ids:calibration_ids"}
evaluation: [{name: text, ids: "$ids:ids"}]
run: {products: f32}
YAML
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>&1 || fail "alone: $(tail -3 "$work/out")"
"$python" "$SOURCE/tests/golden/atom.py" "$ids" "$work/atom.h5" || fail "alone"

launch 120 3 run "$work/sweep.yaml" --set results=group.h5 --set run.ranks_per_group=2 || fail "a group: $(cat "$work/err")"
"$python" "$SOURCE/tests/golden/atom.py" "$ids" "$work/group.h5" || fail "a group"

least=$("$QTRAJ" plan "$work/sweep.yaml" --set results=little.h5 --json 2>"$work/err" | "$python" -c 'import json, sys; print(max(m["memory"]["least"] for m in json.load(sys.stdin)["cost"]["models"]))') || fail "plan"
"$QTRAJ" run "$work/sweep.yaml" --set results=little.h5 --set "run.memory_per_rank=$least" >"$work/out" 2>&1 || fail "little memory: $(tail -3 "$work/out")"
"$python" "$SOURCE/tests/tools/compare_cubes.py" "$work/atom.h5" "$work/little.h5" || fail "little memory: another cube"
finish
