#!/usr/bin/env bash
# Results of another sweep (a copied sweep file whose `results` was not changed) are not taken over: a run ends with 2, says what is
# there and leaves it as it is; --adopt takes them. So does one of the same sweep whose checkpoints are other weights in another folder,
# which the results do not know.
# A sweep that grows, or whose text or folder changes, goes on with its own.
. "$SOURCE/tests/tools/lib.sh"
quickstart_sweep '1p;/step000100/p' fixed_text <<'YAML'
name: first
results: cube.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, samples: 2}]
YAML
run() { timeout 120 "$QTRAJ" "$@" >"$work/out" 2>"$work/err"; }
# expect CODE COMMAND ARGUMENT ...
expect() {
    local got
    run "$2" "$work/sweep.yaml" "${@:3}"
    got=$?
    [ $got = "$1" ] || fail "${*:2}: exit code $got: $(cat "$work/err")"
}
refused() {
    cp "$work/cube.h5" "$work/before.h5"
    cp "$work/cube.journal" "$work/before.journal"
    expect 2 run "$@"
    grep -qF "results: $work/cube.h5 is another sweep's: first, 1 checkpoint of quickstart, planned " "$work/err" || fail "$*: $(cat "$work/err")"
    cmp "$work/cube.h5" "$work/before.h5" && cmp "$work/cube.journal" "$work/before.journal" || fail "$*: the results were changed"
}
expect 0 run
refused --set name=second
mkdir "$work/others"
cp -r "$quickstart/trajectory/step001200" "$work/others/step000100"
refused --set 'models[0].name=other' --set "models[0].path=$work/others/{checkpoint}"
expect 1 plan --rate 10 --set name=second
grep -q "is another sweep's" "$work/err" || fail "plan: $(cat "$work/err")"
expect 2 launch -n 2 --set name=second
grep -q "is another sweep's" "$work/err" || fail "launch: $(cat "$work/err")"
# Its own: other bits, one more model, another text, more checkpoints.
expect 0 run --set bits=[3,4]
expect 0 run --set 'evaluation[0].samples=3'
sed -n '1p;/step000100/p;/step001200/p' "$quickstart/trajectory.csv" >"$work/trajectory.csv"
expect 0 run
grep -q "cube.h5: 2 of 2 cells done" "$work/err" "$work/out" || fail "grown: $(cat "$work/err")"
# Taken over, it is its own; what the first had computed of these checkpoints stays known.
expect 0 run --set name=second --adopt
expect 0 run --set name=second
# Parts that are not merged yet are somebody's, too.
expect 0 run --part 1/2 --set "results=$work/apart.h5"
for more in "" "--part 1/3"; do # shellcheck disable=SC2086
    expect 2 run $more --set "results=$work/apart.h5" --set name=second
    grep -q "is another sweep's: first" "$work/err" || fail "parts $more: $(cat "$work/err")"
done
[ ! -e "$work/apart.h5" ] || fail "parts: taken over"
# Other weights of the same names in another folder do not replace what is finished, whatever is chosen, also in parts; they do with
# --adopt, and then the first folder's are known too. A moved folder keeps its results; one whose weights change in place is computed
# again.
mkdir "$work/a" "$work/b"
for of in a/step000100:step000100 a/step001200:step001200 b/step000100:step000100 b/step001200:step000100; do
    cp -r "$quickstart/trajectory/${of#*:}" "$work/${of%:*}"
done
here() { echo "models[0].path=$work/$1/{checkpoint}"; }
placed() { expect "$1" "$2" --set "results=$work/placed.h5" --set "$(here "$3")" "${@:4}"; }
other() { # other THEN NOW: the fault of the second folder
    grep -qE "placed.h5 has results of other weights of 1 checkpoint \(quickstart step001200: [0-9a-f]{8}\.\. in $work/$1/step001200, now [0-9a-f]{8}\.\. in $work/$2/step001200\)" "$work/err" || fail "$1, $2: $(cat "$work/err")"
}
placed 0 run a
cp "$work/placed.journal" "$work/before.journal"
for more in "" "--only bits=4" "--part 1/2"; do # shellcheck disable=SC2086
    placed 2 run b $more
    other a b
done
placed 1 plan b --rate 10
other a b
cmp "$work/placed.journal" "$work/before.journal" || fail "placed: the results were changed"
mv "$work/a" "$work/moved"
placed 0 run moved
grep -q "nothing to do" "$work/err" "$work/out" || fail "moved: $(cat "$work/err")"
placed 0 run b --adopt
grep -q "1 visit, 1 cell to do" "$work/err" "$work/out" || fail "adopted: $(cat "$work/err")"
placed 0 run b
for folder in moved b; do
    placed 0 run $folder
    grep -q "nothing to do" "$work/err" "$work/out" || fail "back to $folder: $(cat "$work/err")"
done
cp "$quickstart/trajectory/step000500/"* "$work/b/step001200"
placed 0 run b
grep -q "weights have changed since" "$work/err" || fail "in place: $(cat "$work/err")"
# A cube whose journal is gone is nothing that a run goes on with; the plan says the same.
mv "$work/cube.journal" "$work/before.journal"
for what in "2 run" "1 plan --rate 10"; do # shellcheck disable=SC2086
    set -- $what
    expect "$1" "$2" --set name=second "${@:3}"
    grep -q "cube.h5 exists, but its journal $work/cube.journal does not: a run would overwrite it" "$work/err" || fail "$what: $(cat "$work/err")"
done
finish
