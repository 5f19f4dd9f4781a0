#!/usr/bin/env bash
# Binary terms (BiLLM) against numpy, with and without feedback, on one rank and on two, and what refuses them.
. "$SOURCE/tests/tools/lib.sh"
need_python json numpy h5py
numpy_text=fixed_text # so that no change of the sources brings a near tie, which f32 and f64 may decide differently
. "$SOURCE/tests/tools/numpy.sh"

quickstart_sweep '1p;$p' fixed_text <<YAML
name: billm
results: billm.h5
bits: [1]
methods:
  - {name: closed, method: billm}
  - {name: open, method: billm, feedback: false, scale_dtype: f16}
  - {name: narrow, method: billm, block_size: 45}
$numpy_texts
YAML
golden_ranks billm

refused() { # WORDS COMMAND ...
    "$QTRAJ" "${@:2}" >"$work/out" 2>"$work/err" && fail "not refused: ${*:2}"
    grep -q "$1" "$work/err" || fail "${*:2}: $(tail -1 "$work/err")"
}
refused "has no option group_size" run "$work/sweep.yaml" --set "methods=[{method: billm, group_size: 64}]"
refused "billm has 1 bits" run "$work/sweep.yaml" --set "bits=[2]"
refused "block_size: 0" run "$work/sweep.yaml" --set "methods=[{method: billm, block_size: 0}]"
refused "billm" quantize "$quickstart/trajectory/step001200" --method billm --bits 1 --calibration-text "$work/text.txt" --length 64 --out "$work/packed" --format gptq
finish
