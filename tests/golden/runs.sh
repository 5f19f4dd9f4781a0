#!/usr/bin/env bash
# Runs side by side on cubes of known truth: which checkpoint is best, runs at equal full-precision loss; the command decide.py.
. "$SOURCE/tests/tools/lib.sh"
: "${CUBES:?the cubes that golden.cubes has made}"
need_python h5py numpy matplotlib pandas scipy statsmodels xarray h5netcdf jinja2

PYTHONPATH=$SOURCE/analysis "$python" "$SOURCE/tests/tools/check_runs.py" "$work" >"$work/found" 2>&1 || fail "$(tail -n 20 "$work/found")"
tail -n 1 "$work/found"
"$python" "$SOURCE/analysis/decide.py" "$CUBES/one.h5" "$CUBES/two_models.h5" --bits 3 --quantizer gptq --compare parameters_non_embedding >"$work/out" 2>"$work/err" ||
    fail "decide.py: $(cat "$work/err")"
grep -q '^at 3 bits the smallest loss on .*, .* is that of step.* of OLMo2-7B, gptq$' "$work/out" && grep -q 'order by parameters_non_embedding' "$work/out" &&
    grep -q '^  not compared (branches, or in an earlier file): .*cooldown of it, SmolLM3-3B-soup-ingredient-2$' "$work/out" ||
    fail "decide.py: $(cat "$work/out")"
# cubes without losses of sequences have no intervals, and nothing is said of ties
grep -q '^  no intervals' "$work/out" && ! grep -q '^no other ties' "$work/out" || fail "decide.py, ties: $(cat "$work/out")"
# which rows stand there
listed=$(grep -c '^  .* of .*, gptq' "$work/out") of=$(sed -n 's/^  the [0-9]* smallest losses of \([0-9]*\): .* and the next 10$/\1/p' "$work/out")
grep -q "^  the $listed smallest losses of $of: the best" "$work/out" && [ "$of" -gt "$listed" ] || fail "decide.py, rows: $(cat "$work/out")"
grep -q pending "$work/out" && fail "decide.py: a finished cube is said to be unfinished: $(cat "$work/out")"
"$python" "$SOURCE/analysis/decide.py" "$CUBES/odd.h5" --bits 3 >"$work/out" 2>"$work/err" || fail "decide.py: $(cat "$work/err")"
head -n 1 "$work/out" | grep -q '^1 cell is pending, 1 failed at 3 bits; this is of the others:$' || fail "decide.py, unfinished: $(cat "$work/out")"
cp "$CUBES/two_models.h5" "$work/apart.h5"
"$python" - "$work/apart.h5" <<'CODE'
import sys

import h5py
import numpy as np

with h5py.File(sys.argv[1], "r+") as cube:
    names = [name.decode() for name in cube["model"][:]]
    for name, low in (("SmolLM3-3B", 2.0), ("OLMo2-7B", 1.0)):
        losses = cube["baseline_loss"][names.index(name)]
        known = np.isfinite(losses).any(axis=-1)
        losses[known] = np.linspace(low + 0.5, low, known.sum())[:, None]
        cube["baseline_loss"][names.index(name)] = losses
CODE
"$python" "$SOURCE/tests/tools/refusals.py" "$SOURCE/analysis/decide.py" >"$work/refused" <<INPUT || fail "$(cat "$work/refused")"
"the cube has no bits 5; there are 3, 4" $CUBES/one.h5 --bits 5
"the cube has no quantizer awq; there are rtn, gptq" $CUBES/one.h5 --bits 3 --quantizer awq
"no column weight_decay of runs" $CUBES/two_models.h5 --bits 3 --compare weight_decay
"1 run with two checkpoints; it takes two" $CUBES/one.h5 --bits 3 --compare tokens
"in common: SmolLM3-3B has 2.5 to 2, OLMo2-7B has 1.5 to 1" $work/apart.h5 --bits 3 --compare tokens
INPUT
finish
