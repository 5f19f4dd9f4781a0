#!/usr/bin/env bash
# Mean and variance of the gradient against central differences: by 1, 2 and 3 ranks; what is pending, and texts that are too short.
. "$SOURCE/tests/tools/lib.sh"
need_python json numpy h5py
export PYTHONPATH=$SOURCE/tests/tools OMPI_MCA_ess_singleton_isolated=1
golden() { "$python" "$SOURCE/tests/golden/gradient.py" "$@" >"$work/golden" 2>&1 || fail "$*: $(tail -1 "$work/golden")"; }

golden ids "$work/ids.safetensors" 12 24
ln -s "$SOURCE/tests/fixtures/models/tiny_llama" "$work/only"
printf 'checkpoint,step\nonly,1\n' >"$work/one.csv"
cat >"$work/sweep.yaml" <<YAML
name: gradient
results: alone.h5
bits: [4]
methods: [{method: rtn, group_size: -1}]
evaluation: [{name: ids, ids: "ids.safetensors:ids"}]
gradient: {batches: 6, sequences: 2}
models: [{name: tiny, trajectory: one.csv, path: "$work/{checkpoint}"}]
run: {threads: 1}
YAML
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>&1 || fail "run: $(tail -3 "$work/out")"
for n in 2 3; do
    launch 100 $((n + 1)) run "$work/sweep.yaml" --set "results=$work/ranks$n.h5" --set run.ranks_per_group=$n || fail "$n ranks: $(tail -3 "$work/err")"
done
golden compare "$work/only" "$work/ids.safetensors" 2 "$work/alone.h5" "$work/ranks2.h5" "$work/ranks3.h5"
"$QTRAJ" show "$work/alone.h5" --kind gradient >"$work/out" 2>&1 || fail "show: $(cat "$work/out")"
grep -q 'gradient_signal_to_noise' "$work/out" || fail "show: $(cat "$work/out")"
"$QTRAJ" status "$work/alone.h5" | grep -q '^gradient of checkpoints: 1 done, 0 failed, 0 pending' || fail "status"

left() { # COUNT OPTION ...: visits that are left
    "$QTRAJ" plan "$work/sweep.yaml" --brief "${@:2}" >"$work/out" 2>"$work/err" || fail "plan of $*: $(cat "$work/err")"
    grep -q "left: $1 visit" "$work/out" || fail "$*: $(cat "$work/out")"
}
left 0
left 1 --set gradient.batches=5
left 1 --set gradient.sequences=3
left 1 --set gradient.subset=quantized
left 1 --set gradient.length=12
"$QTRAJ" run "$work/sweep.yaml" --set gradient.sequences=7 >"$work/out" 2>&1
[ $? = 1 ] || fail "one batch: $(tail -2 "$work/out")"
"$QTRAJ" status "$work/alone.h5" >"$work/out"
grep -q 'gradient: its text has 12 sequences, expected two batches of 7 or more' "$work/out" || fail "one batch: $(cat "$work/out")"
"$QTRAJ" plan "$work/sweep.yaml" --set gradient.batches=null >"$work/out" 2>&1
[ $? = 2 ] && grep -q 'gradient.batches: expected how many: 2 or more' "$work/out" || fail "no batches: $(tail -1 "$work/out")"
finish
