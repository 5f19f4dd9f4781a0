#!/usr/bin/env bash
# configs/: the tables are what their spec files make, agree with the publications, and every sweep passes qtraj plan.
. "$SOURCE/tests/tools/lib.sh"
need_python json

# the committed tables and shapes are what jobs/make_configs.sh makes
bash "$SOURCE/jobs/make_configs.sh" "$work/made" || fail "make_configs.sh"
for folder in trajectories shapes; do
    (cd "$work/made/$folder" && find . -type f | sort) >"$work/files"
    [ -s "$work/files" ] || fail "nothing was made in $folder"
    while read -r file; do
        cmp "$work/made/$folder/$file" "$SOURCE/configs/$folder/$file" ||
            fail "configs/$folder/$file differs: run jobs/make_configs.sh"
    done <"$work/files"
    (cd "$SOURCE/configs/$folder" && find . -name '*.json' -o -name '*.csv' ! -name shapes.csv | sort) >"$work/committed"
    cmp -s "$work/files" "$work/committed" || fail "configs/$folder: $(diff "$work/files" "$work/committed")"
done

"$python" "$SOURCE/tests/tools/check_trajectories.py" "$SOURCE" || fail "a table disagrees with its publication"

# every sweep passes qtraj plan with the shapes alone, under the presets of both releases, with the cells that it states
export CHECKPOINTS=$SOURCE/configs/shapes
sweeps=0
for sweep in "$SOURCE"/configs/*.yaml; do
    grep -q 'bytes: 2700000, draw: 1}' "$sweep" || fail "$sweep: not the documents of the others"
    for preset in gptqmodel-4 gptqmodel-5; do
        grep -q "^# .*preset.*$preset\|^#   .*preset=$preset" "$sweep" || fail "$sweep does not name $preset"
        "$QTRAJ" plan "$sweep" --json --rate 2000 --set "preset=$preset" --set "results=$work/none.h5" >"$work/plan.json" 2>"$work/err"
        [ $? = 2 ] || fail "plan $sweep, $preset, whose checkpoints are not there: $(cat "$work/err")"
        "$python" "$SOURCE/tests/tools/check_plan.py" "$sweep" "$SOURCE/configs/shapes/shapes.csv" <"$work/plan.json" || fail "$sweep, $preset"
    done
    sweeps=$((sweeps + 1))
done
[ "$sweeps" -ge 15 ] || fail "only $sweeps sweep files"
"$QTRAJ" plan "$SOURCE/configs/scale/paper.yaml" --json --rate 2000 >"$work/plan.json" 2>/dev/null
grep -q '"cells": 652' "$work/plan.json" || fail "paper.yaml: not 326 checkpoints at two bit-widths"

# docs/cluster.md shows what plan prints on a CPU without AVX-512
page=$SOURCE/docs/cluster.md
command=$(grep '^qtraj plan configs/scale/sizes.yaml' "$page")
(cd "$SOURCE" && QTRAJ_KERNELS=avx2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell "$QTRAJ" ${command#qtraj}) >"$work/sizes" 2>/dev/null
rows=$(sed -n '/^qtraj plan configs\/scale\/sizes.yaml/,/^```/p' "$page" | sed '1d;$d')
[ "$(wc -l <<<"$rows")" = 6 ] || fail "$page: not a head and five models: $rows"
while read -r row; do
    grep -qxF -- "$row" <(sed 's/ *$//' "$work/sizes") || fail "$page: not printed any more: $row"
done <<<"$rows"
nodes=1,
for group in 1 4 16; do
    "$QTRAJ" plan "$SOURCE/configs/scale/paper.yaml" --brief --rate 2000 --simulate "${nodes}16,64,128,256,1024" --group $group 2>/dev/null |
        grep -A 9 '^ *nodes ' | awk 'NR > 1 { print $1, $2, $3 }' >"$work/times-$group"
    nodes=
done
sed -n '/^| nodes | 1 per visit/,/^$/s/^| \([0-9].*\) |$/\1/p' "$page" >"$work/times"
[ "$(wc -l <"$work/times")" = 5 ] || fail "$page: not five numbers of nodes"
while IFS='|' read -r nodes one four sixteen; do
    for pair in "1 $one" "4 $four" "16 $sixteen"; do
        read -r group time <<<"$pair"
        grep -qxF "${nodes% } $time" "$work/times-$group" || fail "$page: $nodes nodes, $group per visit: not $time: $(cat "$work/times-$group")"
    done
done <"$work/times"
grep -qxF "1 154 days" "$work/times-1" || fail "$page: not 154 days on one node"
finish
