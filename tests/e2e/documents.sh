#!/usr/bin/env bash
# Evaluation on so many bytes of documents that are drawn: the same for any number of ranks; what a change makes pending.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy xarray h5netcdf

quickstart_sweep '1p;$p' <<'YAML'
name: documents
results: one.h5
bits: [3]
methods: [{method: rtn}]
evaluation: [{name: drawn, text: lines.jsonl, field: text, length: 64, bytes: 6000, draw: 3}]
run: {threads: 1}
YAML
"$python" - "$work" <<'PYTHON'
import json, sys
lines = open(f"{sys.argv[1]}/text.txt").read().split("\n\n")
open(f"{sys.argv[1]}/lines.jsonl", "w").writelines(json.dumps({"text": line}) + "\n" for line in lines)
PYTHON
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>&1 || fail "run: $(tail -3 "$work/out")"
launch 300 4 run "$work/sweep.yaml" --set results="$work/ranks.h5" --set run.ranks_per_group=3 || fail "launch: $(tail -3 "$work/err")"
"$QTRAJ" run "$work/sweep.yaml" --set results="$work/first.h5" --set evaluation[0].draw=null >"$work/out" 2>&1 || fail "first: $(tail -3 "$work/out")"
"$python" - "$work" <<'PYTHON' || fail "the texts that were read"
import sys
import numpy as np
import xarray as xr
one, ranks, first = (xr.open_dataset(f"{sys.argv[1]}/{n}.h5", engine="h5netcdf") for n in ("one", "ranks", "first"))
for x in ("baseline_loss", "loss", "loss_delta", "baseline_bits_per_byte", "bits_per_byte", "baseline_bytes", "baseline_tokens"):
    assert np.isfinite(one[x].values).all() and np.array_equal(one[x].values, ranks[x].values), x
for cube in (one, first):  # less the first token of each sequence, which is not scored
    assert 5700 < float(cube.baseline_bytes.squeeze()) < 6000, cube.baseline_bytes
assert not np.array_equal(one.baseline_loss.values, first.baseline_loss.values)
PYTHON
left() { # COUNT OPTION ...: visits that are left
    "$QTRAJ" plan "$work/sweep.yaml" --brief "${@:2}" >"$work/out" 2>"$work/err" || fail "plan of $*: $(cat "$work/err")"
    grep -q "left: $1 visit" "$work/out" || fail "$*: $(cat "$work/out")"
}
left 0
left 1 --set evaluation[0].draw=4
left 1 --set evaluation[0].bytes=6001
left 1 --set evaluation[0].documents=10
for i in $(seq 100); do echo "{\"text\": \"and one more, number $i, of which some are drawn\"}"; done >>"$work/lines.jsonl"
left 1
finish
