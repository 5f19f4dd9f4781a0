#!/usr/bin/env bash
# Curvature in a sweep: same numbers as qtraj curvature, on one rank and several; it can be added to finished cells, and it
# fails and is repeated independently of them.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py

quickstart_sweep '1p;2p;4p;9p' <<'EOF'
name: curvature
results: results.h5
bits: [3]
methods: [{method: rtn, group_size: 64}]
evaluation:
  - {name: text, text: text.txt, length: 128, skip: 3, samples: 3}
EOF
section='curvature={sharpness: lanczos, products: 6, trace: 4, density: 3, subset: blocks2d, sequences: 2, length: 64}'

value() { # FILE VARIABLE: its values, one a line
    "$python" -c 'import sys, h5py
for x in h5py.File(sys.argv[1])[sys.argv[2]][()].ravel(): print(x)' "$work/$1" "$2"
}
expect() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || fail "$1: $2, expected $3"
}

# A finished sweep without curvature; then only curvature is computed.
launch 300 1 run "$work/sweep.yaml" || fail "sweep without curvature: $(cat "$work/err")"
expect "not asked for" "$(value results.h5 curvature_status | sort -u)" 3
cp "$work/results.journal" "$work/before.journal"
launch 300 1 run "$work/sweep.yaml" --set "$section" || fail "curvature added: $(cat "$work/err")"
grep -q "curvature of 3 checkpoints to do" "$work/err" || fail "what is to do: $(cat "$work/err")"
tail -n +$(($(wc -l <"$work/before.journal") + 1)) "$work/results.journal" | cut -d' ' -f2- >"$work/added"
expect "records added" "$(grep -o '"type": *"[a-z]*"' "$work/added" | tr -d ' ' | sort | uniq -c | tr -s ' \n' ' ')" \
    ' 3 "type":"curvature" 1 "type":"end" 1 "type":"plan" '
expect "done" "$(value results.h5 curvature_status | sort -u)" 1
launch 60 1 run "$work/sweep.yaml" --set "$section" || fail "nothing to do: $(cat "$work/err")"
grep -q "nothing to do" "$work/err" || fail "done again: $(cat "$work/err")"
cp "$work/results.h5" "$work/alone.h5"

# Another evaluation text, or other cells, do not affect it.
more='evaluation=[{name: text, text: text.txt, length: 128, skip: 3, samples: 3}, {name: more, text: text.txt, length: 128, samples: 1}]'
"$QTRAJ" plan "$work/sweep.yaml" --set "$section" --set "$more" --set 'bits=[3,4]' >"$work/plan"
expect "curvature after the evaluation has changed" "$(grep -c 'rtn 3+ 4\.  curvature\*' "$work/plan")" 3
"$QTRAJ" plan "$work/sweep.yaml" --set "$section" --set 'curvature.trace=5' >"$work/plan"
expect "cells after curvature has changed" "$(grep -c 'rtn 3\*  curvature\.' "$work/plan")" 3

# The single-checkpoint command gives the same numbers, on the first tokens of the sequences that are evaluated.
"$QTRAJ" curvature "$quickstart/trajectory/step000500" --text "$work/text.txt" --length 128 --cut 64 --skip 3 --samples 2 --subset blocks2d \
    --sharpness lanczos --products 6 --trace 4 --density 3 --json >"$work/single.json" || fail "qtraj curvature"
"$python" - "$work/alone.h5" "$work/single.json" <<'EOF' || fail "the sweep and qtraj curvature differ"
import json, sys, h5py
cube, one = h5py.File(sys.argv[1]), json.load(open(sys.argv[2]))
names = {"sharpness": "sharpness", "sharpness_residual": "sharpness_residual", "smallest_eigenvalue": "smallest_eigenvalue", "trace": "trace",
         "trace_stderr": "trace_stderr", "gradient_norm": "gradient_norm", "curvature_loss": "loss", "curvature_tokens": "tokens",
         "curvature_products": "products", "sharpness_iterations": "sharpness_iterations", "curvature_parameters": "parameters"}
bad = [f"{a}: {cube[a][0, 1]!r} {one[b]!r}" for a, b in names.items() if cube[a][0, 1] != one[b]]
rows = cube["spectral_density/curvature_row"][()] == 1
bad += ["density"] * (list(cube["spectral_density/node"][rows]) != one["density"][0]["nodes"])
tensors = cube["curvature_tensors/curvature_row"][()] == 1
bad += ["tensors"] * (list(cube["curvature_tensors/gradient_norm"][tensors]) != list(one["gradient_norms"].values()))
print(*bad, sep="\n")
sys.exit(len(bad) > 0)
EOF

# The same bits on three ranks, and after a rebuild from the journal.
launch 300 3 run "$work/sweep.yaml" --set "$section" --set results=three.h5 || fail "three ranks: $(cat "$work/err")"
compare alone three
"$QTRAJ" rebuild "$work/rebuilt.h5" "$work/results.journal" && "$python" "$SOURCE/tests/tools/compare_cubes.py" "$work/alone.h5" "$work/rebuilt.h5" ||
    fail "the rebuilt cube differs"

# A warm start: recorded; the same bits whichever ranks ran it and whether or not the vectors existed; no files left.
warm=${section%\}}', warm_start: true}'
launch 300 1 run "$work/sweep.yaml" --set "$warm" --set results=warm.h5 || fail "warm start: $(cat "$work/err")"
expect "warm started" "$(value warm.h5 sharpness_warm_start | tr '\n' ' ')" "0 1 1 "
expect "the first checkpoint" "$(value warm.h5 sharpness | sed -n 1p)" "$(value alone.h5 sharpness | sed -n 1p)"
cp "$work/warm.h5" "$work/first.h5"
launch 300 4 run "$work/sweep.yaml" --set "$warm" --set results=warm3.h5 || fail "warm start on ranks: $(cat "$work/err")"
compare first warm3
launch 300 1 run "$work/sweep.yaml" --set "$warm" --set results=warm.h5 --redo --only 'checkpoint=step001200' || fail "redo"
compare first warm

only_bits

# The same weights twice: the second measurement starts from the result of the first.
mkdir "$work/twice" && ln -s "$quickstart/trajectory/step001200" "$work/twice/a" && ln -s "$quickstart/trajectory/step001200" "$work/twice/b"
cp "$quickstart/trajectory/tokenizer.json" "$work/twice"
printf 'checkpoint,step\na,1\nb,2\n' >"$work/twice.csv"
launch 300 1 run "$work/sweep.yaml" --set "$warm" --set results=twice.h5 --set "models[0].path=$work/twice/{checkpoint}" \
    --set models[0].trajectory=twice.csv || fail "the same twice: $(cat "$work/err")"
expect "the residual falls" "$(value twice.h5 sharpness_residual | "$python" -c 'a, b = map(float, open(0)); print(b < a)')" True
[ -e "$work/twice.h5.vectors" ] && fail "vectors are left"

# A failure is a separate record with a message; the cells stay done.
launch 60 1 run "$work/sweep.yaml" --set "$section" --set curvature.memory=0.001
expect "exit code of a failed curvature" $? 1
expect "failed" "$(value results.h5 curvature_status | sort -u)" 2
expect "the cells" "$(value results.h5 status | sort -u)" 1
"$QTRAJ" status "$work/results.h5" | grep -q "step000500 (curvature): Lanczos needs 4 vectors" || fail "the message is lost"

launch 60 1 run "$work/sweep.yaml" --set "$section" --set results=small.h5 --set run.memory_per_rank=200M \
    --set curvature.density=200 --set curvature.memory=1
"$QTRAJ" status "$work/small.h5" | grep -q "(curvature): run.memory_per_rank of 200 MiB is too little for curvature, which takes" ||
    fail "a promise of memory: $("$QTRAJ" status "$work/small.h5")"

finish
