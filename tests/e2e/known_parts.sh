#!/usr/bin/env bash
# Parts of records: of curvature a change of one part computes that part alone, of movement a further bit-width its steps alone, what is
# left out nothing; all give the bits of a run that had them from the start. Second order with other settings for the same tokens scores
# no cell again. A whole run takes what parts hold.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy

quickstart_sweep '1p;/step000100/p;/step001200/p' fixed_text <<'YAML'
name: known
results: cube.h5
methods: [{method: rtn, bits: [4], group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 1}]
movement: rtn
curvature: {sharpness: power, products: 3, trace: 2, sequences: 1, length: 64}
YAML
head -c 8000 "$work/text.txt" >"$work/short" && mv "$work/short" "$work/text.txt"
export QTRAJ_TRACE=visit

# run WHAT ARGUMENT ...: runs the sweep
run() { "$QTRAJ" run "$work/sweep.yaml" "${@:2}" >"$work/out" 2>"$work/err" </dev/null || fail "$1: exit code $?: $(cat "$work/err")"; }
# sum EXPRESSION: of the numbers that lines of the last run's messages have there
sum() { sed -n "s/.*$1\$/\\1/p" "$work/err" | awk '{ n += $1 } END { print n + 0 }'; }
# go WHAT PRODUCTS STEPS KEY=VALUE ...: runs the sweep so; over both checkpoints it takes so many products of curvature, and steps of so
# many bit-widths of movement.
go() {
    set=()
    local key got
    for key in "${@:4}"; do set+=(--set "$key"); done
    run "$1" "${set[@]}"
    got="$(sum 'curvature: \([0-9]*\) products') $(sum 'movement: steps of \([0-9]*\) bit-widths')"
    echo "$1: products, bit-widths: $got"
    [ "$got" = "$2 $3" ] || fail "$1: $got products and bit-widths, expected $2 and $3: $(cat "$work/err")"
}
# same WHAT: the cube is that of a run from nothing with the same settings
same() {
    run "$1, from nothing" "${set[@]}" --set "results=$work/fresh.h5"
    compare fresh cube
    rm -rf "$work"/fresh.*
}
nothing() { grep -q 'nothing to do' "$work/err" || fail "$1: $(cat "$work/err")"; }

first='curvature={sharpness: power, products: 3, trace: 2, sequences: 1, length: 64}'
probes=${first/trace: 2/trace: 3}
dense=${probes/trace: 3/trace: 3, density: 4}
go "from nothing" 10 1
go "more probes" 6 0 "$probes"
same "more probes"
cp "$work/cube.journal" "$work/before.journal"
"$QTRAJ" plan "$work/sweep.yaml" --set "$dense" --rate 10 >"$work/out" 2>"$work/err"
grep -q 'curvature is pending again, in part: density: 0 -> 4' "$work/err" || fail "the plan's reason: $(cat "$work/err")"
cmp "$work/cube.journal" "$work/before.journal" || fail "the plan writes"
go "a density" 8 0 "$dense"
go "Lanczos" 6 0 "${dense/power/lanczos}"
same "Lanczos"
go "the density alone" 0 0 'curvature={density: 4, sequences: 1, length: 64}'
nothing "the density alone"
"$QTRAJ" status "$work/cube.journal" --exit-code >"$work/out" || fail "the density alone: status ends with $?: $(cat "$work/out")"
same "the density alone"
go "memory, and probes that share a pass" 0 0 "${probes/trace/memory: 1, together: 1, trace}"
nothing "memory"
go "the first again" 0 0
nothing "the first again"
go "another seed" 10 0 "${first/sequences/seed: 1, sequences}"

go "a bit-width" 0 1 'methods=[{method: rtn, bits: [4,3], group_size: 64}]'
same "a bit-width"
go "the new one alone" 0 0 'methods=[{method: rtn, bits: [3], group_size: 64}]'
nothing "the new one alone"
same "the new one alone"
go "single weights" 0 1 movement_weights=9
go "single weights at another bit-width" 0 1 movement_weights=9 'methods=[{method: rtn, bits: [4,3], group_size: 64}]'
same "single weights at another bit-width"
more='methods=[{method: rtn, bits: [4,3], group_size: 64}, {method: rtn, name: other, bits: [2], group_size: 32}]'
go "a method" 0 0 "$more"
go "movement on another grid" 0 1 "$more" movement=other

# What must be computed again: all with --redo, and of other weights.
run "redo" --redo --set "$dense"
[ "$(sum 'curvature: \([0-9]*\) products')" = 20 ] || fail "redo: $(grep products "$work/err")"
cp -r "$quickstart/trajectory" "$work/trajectory"
sed -i "s|$quickstart/trajectory/{|$work/trajectory/{|" "$work/sweep.yaml"
run "moved"
nothing "moved"
rm -r "$work/trajectory/step001200"
cp -r "$quickstart/trajectory/step000300" "$work/trajectory/step001200"
go "other weights" 17 1 "${first/trace: 2/trace: 5, density: 2}"

# --- a warm start ---

rm -rf "$work"/cube.*
warm='curvature={sharpness: power, products: 3, warm_start: true, sequences: 1, length: 64}'
go "a warm start" 6 1 "$warm"
go "a trace beside it" 4 0 "${warm/warm_start/trace: 2, warm_start}"
same "a trace beside it"
go "without the warm start" 6 0 "${warm/warm_start: true, /}"

# --- second order ---

# cells N WHAT: the journal has so many records of cells
cells() { [ "$(grep -c '"type":"cell"' "$work/cube.journal")" = "$1" ] || fail "$2: cells are scored again"; }
rm -rf "$work"/cube.*
total='curvature={second_order: total, sequences: 1, length: 64}'
go "second order" 0 1 "$total"
go "critical sharpness beside it" 0 0 "${total/total/total, critical: true}"
grep -q 'predictions of 2 scored cells to do' "$work/err" || fail "critical: $(cat "$work/err")"
cells 2 "critical"
same "critical sharpness beside it"
go "the total again" 0 0 "$total"
nothing "the total again"
go "layers" 0 0 "${total/total/layers}"
cells 2 "layers"
go "other tokens" 0 0 "${total/64/32}"
cells 4 "other tokens"

# --- parts of a sweep ---

rm -rf "$work"/cube.*
run "part 1" --part 1/2
run "part 2" --part 2/2 --set "$probes"
"$QTRAJ" plan "$work/sweep.yaml" --rate 10 >"$work/out" 2>"$work/err"
grep -q 'left: 1 visit,' "$work/out" || fail "a plan beside parts: $(cat "$work/out")"
cp "$work"/cube.h5.parts/part-002-*.journal "$work/part.journal"
go "a whole run beside parts, one with other probes" 2 0
same "a whole run"
cmp "$work/part.journal" "$work"/cube.h5.parts/part-002-*.journal || fail "the journal of a part was changed"
lines=$(wc -l <"$work/cube.journal")
go "the same again" 0 0
nothing "the same again"
[ "$(wc -l <"$work/cube.journal")" = "$lines" ] || fail "what parts hold is taken twice"
# One that runs is not doubled.
rm -rf "$work"/cube.*
"$QTRAJ" run "$work/sweep.yaml" --part 1/2 >/dev/null 2>"$work/part.err" &
pid=$!
wait_for 120 [ -e "$work/cube.h5.parts/part-001-of-002.journal.lock" ]
kill -STOP $pid
"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err"
[ $? = 2 ] && grep -q 'part 1 of 2 of this sweep is running' "$work/err" || fail "beside a part that runs: $(cat "$work/err")"
[ ! -e "$work/cube.journal" ] || fail "a run that is refused leaves a journal"
kill -CONT $pid
wait $pid || fail "the part: $(cat "$work/part.err")"
finish
