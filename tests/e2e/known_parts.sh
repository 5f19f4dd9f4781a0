#!/usr/bin/env bash
# Parts of records: of curvature a change of one part computes that part alone, of movement a further bit-width its steps alone, a part
# that is left out nothing; all give the bits of a run that had them from the start. A whole run takes what parts hold.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy

quickstart_sweep '1p;/step000100/p;/step001200/p' fixed_text <<'YAML'
name: known
results: cube.h5
methods: [{method: rtn, bits: [4], group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 2}]
movement: rtn
curvature: {sharpness: power, products: 3, trace: 2, sequences: 1, length: 64}
YAML
export QTRAJ_TRACE=visit

# go WHAT PRODUCTS STEPS KEY=VALUE ...: runs the sweep so; it takes so many products of curvature, and steps of so many bit-widths of
# movement, over both checkpoints. Then compares with a run from nothing.
go() {
    local what=$1 key
    local -a set=()
    for key in "${@:4}"; do set+=(--set "$key"); done
    "$QTRAJ" run "$work/sweep.yaml" "${set[@]}" >"$work/out" 2>"$work/err" </dev/null || fail "$what: exit code $?: $(cat "$work/err")"
    local products steps
    products=$(sed -n 's/.*curvature: \([0-9]*\) products$/\1/p' "$work/err" | awk '{ n += $1 } END { print n + 0 }')
    steps=$(sed -n 's/.*movement: steps of \([0-9]*\) bit-widths$/\1/p' "$work/err" | awk '{ n += $1 } END { print n + 0 }')
    echo "$what: $products products, steps of $steps bit-widths"
    [ "$products $steps" = "$2 $3" ] || fail "$what: $products products and steps of $steps bit-widths, expected $2 and $3: $(cat "$work/err")"
    [ "$2 $3" != "0 0" ] || grep -q 'nothing to do' "$work/err" || [ "$what" = "a method" ] || fail "$what: $(cat "$work/err")"
    "$QTRAJ" plan "$work/sweep.yaml" "${set[@]}" --rate 10 >"$work/out" 2>"$work/err"
    grep -q 'left: 0 visits' "$work/out" || fail "$what: the plan: $(cat "$work/out")"
    "$QTRAJ" status "$work/cube.journal" --exit-code >"$work/out" || fail "$what: status ends with $?: $(cat "$work/out")"
    rm -f "$work"/fresh.*
    "$QTRAJ" run "$work/sweep.yaml" "${set[@]}" --set "results=$work/fresh.h5" >"$work/out" 2>"$work/err" </dev/null || fail "$what, fresh: $(cat "$work/err")"
    compare fresh cube
}
first='curvature={sharpness: power, products: 3, trace: 2, sequences: 1, length: 64}'
probes=${first/trace: 2/trace: 3}
dense=${probes/trace: 3/trace: 3, density: 4}
go "from nothing" 10 1
go "more probes" 6 0 "$probes"
cp "$work/cube.journal" "$work/before.journal"
"$QTRAJ" plan "$work/sweep.yaml" --set "$dense" --rate 10 >"$work/out" 2>"$work/err"
grep -q 'curvature is pending again, in part: density: 0 -> 4' "$work/err" || fail "the plan's reason: $(cat "$work/err")"
cmp "$work/cube.journal" "$work/before.journal" || fail "the plan writes"
go "a density" 8 0 "$dense"
go "another sharpness" 8 0 "${dense/products: 3/products: 4}"
go "Lanczos" 6 0 "${dense/power/lanczos}"
go "the density alone" 0 0 'curvature={density: 4, sequences: 1, length: 64}'
go "probes that share a pass" 0 0 "${probes/trace/together: 1, trace}"
go "memory of what stores no vectors" 0 0 "${probes/trace/memory: 1, trace}"
go "the first again" 0 0
go "another text" 10 0 "${first/length: 64/length: 32}"
go "another seed" 10 0 "${first/sequences/seed: 1, sequences}"

both='methods=[{method: rtn, bits: [4,3], group_size: 64}]'
go "a bit-width" 0 1 "$both"
go "the new one alone" 0 0 'methods=[{method: rtn, bits: [3], group_size: 64}]'
go "a method" 0 0 'methods=[{method: rtn, bits: [4,3], group_size: 64}, {method: rtn, name: other, bits: [2], group_size: 32}]'
go "movement on another grid" 0 1 'methods=[{method: rtn, bits: [4,3], group_size: 64}, {method: rtn, name: other, bits: [2], group_size: 32}]' movement=other

# What must be computed again: other weights, and with --redo all.
sum() { "$python" -c 'import h5py, sys; print(float(h5py.File(sys.argv[1])["sharpness"][0, -1]))' "$work/cube.h5"; }
was=$(sum)
"$QTRAJ" run "$work/sweep.yaml" --redo --set "$dense" >"$work/out" 2>"$work/err" || fail "redo: $(cat "$work/err")"
[ "$(grep -c 'curvature: 10 products' "$work/err")" = 2 ] || fail "redo: $(grep 'products' "$work/err")"
cp -r "$quickstart/trajectory" "$work/trajectory"
sed -i "s|$quickstart/trajectory/{|$work/trajectory/{|" "$work/sweep.yaml"
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "moved: $(cat "$work/err")"
grep -q 'nothing to do' "$work/err" || fail "moved: $(cat "$work/err")"
rm -r "$work/trajectory/step001200"
cp -r "$quickstart/trajectory/step000100" "$work/trajectory/step001200"
"$QTRAJ" run "$work/sweep.yaml" --set "$probes" >"$work/out" 2>"$work/err" || fail "other weights: $(cat "$work/err")"
[ "$(grep -c 'curvature: [0-9]* products' "$work/err")" = 1 ] && grep -q 'curvature: 6 products' "$work/err" || fail "other weights: $(grep products "$work/err")"
[ "$(sum)" != "$was" ] || fail "other weights have the old sharpness"

# --- a warm start ---

rm -f "$work"/cube.*
warm='curvature={sharpness: power, products: 3, warm_start: true, sequences: 1, length: 64}'
go "a warm start" 6 1 "$warm"
go "a trace beside it" 4 0 "${warm/warm_start/trace: 2, warm_start}"
go "without the warm start" 6 0 "${first/trace: 2, /}"

# --- parts of a sweep ---

rm -f "$work"/cube.*
"$QTRAJ" run "$work/sweep.yaml" --part 1/2 >"$work/out" 2>"$work/err" || fail "part: $(cat "$work/err")"
"$QTRAJ" run "$work/sweep.yaml" --part 2/2 --set "$probes" >"$work/out" 2>"$work/err" || fail "part: $(cat "$work/err")"
QTRAJ_TRACE='' "$QTRAJ" plan "$work/sweep.yaml" --rate 10 >"$work/out" 2>"$work/err"
grep -q 'left: 0 visits' "$work/out" || fail "a plan beside parts: $(cat "$work/out")"
cp "$work"/cube.h5.parts/*-002-*.journal "$work/part.journal"
go "a whole run beside parts, other probes in one" 0 0
grep -c '"type":"cell"' "$work/cube.journal" | grep -qx 2 || fail "cells of parts are not in the journal"
cmp "$work/part.journal" "$work"/cube.h5.parts/*-002-*.journal || fail "the journal of a part was changed"
lines=$(wc -l <"$work/cube.journal")
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "again: $(cat "$work/err")"
[ "$(wc -l <"$work/cube.journal")" = "$lines" ] || fail "what parts hold is taken twice"
# One that runs is not doubled.
rm -f "$work"/cube.* && rm -r "$work"/cube.h5.parts
"$QTRAJ" run "$work/sweep.yaml" --part 1/2 >/dev/null 2>"$work/part.err" &
pid=$!
wait_for 120 [ -e "$work/cube.h5.parts/part-001-of-002.journal" ]
kill -STOP $pid
if [ -e "$work/cube.h5.parts/part-001-of-002.journal.lock" ]; then
    "$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err"
    [ $? = 2 ] && grep -q 'part 1 of 2 of this sweep is running' "$work/err" || fail "beside a part that runs: $(cat "$work/err")"
else
    fail "the part ended too early"
fi
kill -CONT $pid
wait $pid
finish
