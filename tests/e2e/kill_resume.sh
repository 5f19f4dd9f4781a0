#!/usr/bin/env bash
# Kills a whole MPI job with kill -9 at $QTRAJ_KILLS moments (3) distributed over its run time. A restart with another number
# of workers must end with the cube of an undisturbed run, bit for bit.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
kills=${QTRAJ_KILLS:-3}
# files that a killed Open MPI job leaves behind are removed with the scratch folder
export TMPDIR=$work OMPI_MCA_btl_vader_backing_directory=$work

quickstart_sweep '1p;2p;4p;6p;9p' <<YAML
name: kill
results: undisturbed.h5
bits: [2, 4]
methods: [{method: rtn, group_size: 64}, {method: gptq, group_size: 64}]
calibration: {text: text.txt, length: 128, samples: 8}
evaluation: [{name: own, text: text.txt, length: 128, skip: 8, samples: 8}]
YAML

start=$(date +%s.%N)
launch 120 3 run "$work/sweep.yaml" || fail "undisturbed: exit code $?: $(cat "$work/err")"
end=$(date +%s.%N)

resumed=0
for i in $(seq "$kills"); do
    at=$(awk -v i="$i" -v n="$kills" -v a="$start" -v b="$end" 'BEGIN { printf "%.3f", (b - a) * (i - 0.5) / n }')
    cube=$work/killed$i.h5
    kill_after "$at" "$cube"
    records=$(cat "$work/killed$i.journal" 2>/dev/null | wc -l)
    launch 120 2 run "$work/sweep.yaml" --set "results=$cube" ||
        fail "restart after kill $i: exit code $?: $(cat "$work/err")"
    grep -q 'nothing to do' "$work/err" || resumed=$((resumed + 1))
    echo "killed after $at s with $records records; $(tail -n 1 "$work/err")"
    "$python" "$SOURCE/tests/tools/compare_cubes.py" "$work/undisturbed.h5" "$cube" || fail "kill $i: the cubes differ"
done
[ $resumed -gt 0 ] || fail "no kill came before the end"
finish
