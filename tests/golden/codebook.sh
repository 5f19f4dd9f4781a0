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
golden_ranks codebook

refused() { # WORDS ENTRY
    "$QTRAJ" run "$work/sweep.yaml" --set "methods=[{$2}]" >"$work/out" 2>"$work/err" && fail "not refused: $2"
    grep -q "$1" "$work/err" || fail "$2: $(tail -1 "$work/err")"
}
refused "has no option sparse" "method: rtn, sparse: 1"
refused "sparse: -1" "method: codebook, sparse: -1"
refused "sensitive: 100" "method: codebook, sensitive: 100"
finish
