#!/usr/bin/env bash
# Outlier channels of inputs and of weights as QUIK counts them: in layers with a score above a threshold, by whole hidden sizes.
. "$SOURCE/tests/tools/lib.sh"
need_python json numpy h5py
. "$SOURCE/tests/tools/numpy.sh"

inputs='method: none, activations: {bits: 4, symmetric: false, outliers: 8'
weights='method: rtn, bits: [4], group_size: -1, narrow_range: true, scale_dtype: f32, outlier_columns: 8'
quickstart_sweep '1p;$p' <<YAML
name: quik
results: quik.h5
methods:
  - {name: inputs-all, $inputs}}
  - {name: inputs-threshold, $inputs, outlier_least: 7.5}}
  - {name: inputs-relative, $inputs, outlier_relative: true}}
  - {name: inputs-down, $inputs, outlier_least: 7.5, down_bits: 8}}
  - {name: weights-all, $weights}
  - {name: weights-threshold, $weights, outlier_least: 7.5}
  - {name: weights-relative, $weights, outlier_relative: true}
  - {name: weights-down, $weights, outlier_least: 7.5, down_bits: 8}
$numpy_texts
YAML
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>&1 || fail "$(tail -3 "$work/out")"
golden quik "$quickstart/trajectory/step001200" "$work/ids.safetensors" "$work/quik.h5"
finish
