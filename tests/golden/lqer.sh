#!/usr/bin/env bash
# Low-rank corrections of quantized weights (LQER) against numpy, on one and on three ranks, and what refuses them.
. "$SOURCE/tests/tools/lib.sh"
need_python json numpy h5py
. "$SOURCE/tests/tools/numpy.sh"

own='group_size: -1, narrow_range: true, lqer_rank:'
quickstart_sweep '1p;$p' <<YAML
name: lqer
results: lqer.h5
bits: [3]
methods:
$(for rank in 0 3 20 1000; do echo "  - {name: rank-$rank, method: rtn, $own $rank}"; done)
$(for rank in 0 20 1000; do echo "  - {name: gptq-$rank, method: gptq, scale_dtype: f16-packed, group_size: 32, lqer_rank: $rank}"; done)
  - {name: mixed-0, method: rtn, $own 0, mixing: hadamard}
  - {name: mixed-20, method: rtn, $own 20, mixing: hadamard}
$numpy_texts
YAML
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>&1 || fail "$(tail -3 "$work/out")"
golden lqer "$quickstart/trajectory/step001200" "$work/ids.safetensors" "$work/lqer.h5"
launch 60 3 run "$work/sweep.yaml" --set "results=$work/ranks.h5" || fail "three ranks: $(tail -1 "$work/err")"
golden lqer "$quickstart/trajectory/step001200" "$work/ids.safetensors" "$work/ranks.h5"

refused() { # WORDS COMMAND ...
    "$QTRAJ" "${@:2}" >"$work/out" 2>"$work/err" && fail "not refused: ${*:2}"
    grep -q "$1" "$work/err" || fail "${*:2}: $(tail -1 "$work/err")"
}
at=$quickstart/trajectory/step001200
refused "no packed format has a correction" quantize "$at" --method gptq --bits 4 --lqer-rank 4 --calibration-text "$work/text.txt" --length 64 --out "$work/packed" --format gptq
refused "method rtn with lqer_rank needs calibration text" run "$work/sweep.yaml" --set calibration=null --set "methods=[{method: rtn, lqer_rank: 2}]"
refused "has no option lqer_rank" run "$work/sweep.yaml" --set "methods=[{method: hqq, lqer_rank: 2}]"
refused "lqer_rank: -1" run "$work/sweep.yaml" --set "methods=[{method: rtn, lqer_rank: -1}]"
finish
