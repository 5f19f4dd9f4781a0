#!/usr/bin/env bash
# Tables of values with weights that are kept (SqueezeLLM) against numpy, on one rank and on two, and what refuses them.
. "$SOURCE/tests/tools/lib.sh"
need_python json numpy h5py
. "$SOURCE/tests/tools/numpy.sh"

quickstart_sweep '1p;$p' <<YAML
name: codebook
results: codebook.h5
bits: [2]
methods:
  - {name: dense, method: codebook}
  - {name: sparse, method: codebook, sparse: 2}
  - {name: sensitive, method: codebook, sensitive: 1.5}
  - {name: both, method: codebook, sparse: 0.45, sensitive: 0.3}
$numpy_texts
YAML
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>&1 || fail "$(tail -3 "$work/out")"
golden codebook "$quickstart/trajectory/step001200" "$work/ids.safetensors" "$work/codebook.h5"
launch 60 3 run "$work/sweep.yaml" --set "results=$work/ranks.h5" --set run.ranks_per_group=2 || fail "two ranks: $(tail -1 "$work/err")"
"$python" "$SOURCE/tests/tools/compare_cubes.py" --relative 1e-9 "$work/codebook.h5" "$work/ranks.h5" >"$work/same" 2>&1 || fail "two ranks: $(tail -3 "$work/same")"

refused() { # WORDS ENTRY
    "$QTRAJ" run "$work/sweep.yaml" --set "methods=[{$2}]" >"$work/out" 2>"$work/err" && fail "not refused: $2"
    grep -q "$1" "$work/err" || fail "$2: $(tail -1 "$work/err")"
}
refused "has no option sparse" "method: rtn, sparse: 1"
refused "sparse: -1" "method: codebook, sparse: -1"
refused "sensitive: 100" "method: codebook, sensitive: 100"
finish
