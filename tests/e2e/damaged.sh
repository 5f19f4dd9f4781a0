#!/usr/bin/env bash
# Damaged journals: merge, status and show say which lines of which file they leave out; merge fails unless told to go on, and changes
# none of its inputs. Signals: merge, rebuild, average and quantize leave no temporary file behind.
. "$SOURCE/tests/tools/lib.sh"

quickstart_sweep '1p;3p;6p' <<END_
name: damaged
results: x.h5
bits: [2]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: own, text: text.txt, length: 64, samples: 4}]
END_
"$QTRAJ" run "$work/sweep.yaml" --part 1/2 2>"$work/err" || fail "part 1: $(cat "$work/err")"
"$QTRAJ" run "$work/sweep.yaml" --part 2/2 2>"$work/err" || fail "part 2: $(cat "$work/err")"
parts=$work/x.h5.parts first=$work/x.h5.parts/part-001-of-002.journal
[ "$(wc -l <"$first")" -ge 4 ] || fail "the journal of the first part is short: $(cut -c -80 "$first")"

# says FILE LINES: each command warns of them
says() {
    local expected="part-001-of-002.journal: $1 damaged line"
    "$QTRAJ" merge "$work/out.h5" "$parts" >"$work/out" 2>"$work/err"
    code=$?
    grep -q "$expected" "$work/err" || fail "merge does not say $1: $(cat "$work/err")"
    [ $code = 2 ] || fail "merge of $1 damaged lines: exit code $code"
    grep -q -e '--ignore-damaged' "$work/err" || fail "merge names no remedy: $(cat "$work/err")"
    [ ! -e "$work/out.h5" ] && [ ! -e "$work/out.journal" ] || fail "merge wrote something"
    for command in "status $parts" "status $parts --json" "show $parts" "status $first"; do
        # shellcheck disable=SC2086
        "$QTRAJ" $command >"$work/out" 2>"$work/err" || fail "$command: exit code $?"
        [ "$(grep -c "$expected" "$work/err")" = 1 ] || fail "$command does not say $1 once: $(cat "$work/err")"
    done
}
cp "$first" "$work/whole"
for line in 3 '$'; do # between others, and the last one
    cp "$work/whole" "$first"
    sed -i "$line s/\"type\"/\"tyqe\"/" "$first"
    (cd "$parts" && sha256sum ./*.journal) >"$work/sums"
    says 1
    "$QTRAJ" merge "$work/out.h5" "$parts" --ignore-damaged 2>"$work/err" || fail "--ignore-damaged: $(cat "$work/err")"
    (cd "$parts" && sha256sum --status -c "$work/sums") || fail "merge changed an input"
    rm "$work"/out.*
done

# A torn tail, as a run that is killed leaves it, loses nothing that was recorded.
cp "$work/whole" "$first"
printf 'torn' >>"$first"
cp "$first" "$work/before"
"$QTRAJ" merge "$work/out.h5" "$parts" >/dev/null 2>"$work/err" || fail "merge with a torn tail: $(cat "$work/err")"
cmp -s "$first" "$work/before" || fail "merge changed an input with a torn tail"

# --- signals ---

checkpoint=$quickstart/trajectory/step000300
cp "$work/out.journal" "$work/again.journal"
for command in "merge $work/s.h5 $parts" "rebuild $work/s.h5 $work/again.journal" "average $work/s $checkpoint $checkpoint" \
    "quantize $checkpoint --method rtn --bits 4 --out $work/s --format awq"; do
    left=0 stopped=0
    for signal in INT TERM HUP; do
        for delay in 0.03 0.05 0.07 0.09 0.12; do
            # shellcheck disable=SC2086
            timeout -s "$signal" "$delay" "$QTRAJ" $command >/dev/null 2>&1
            [ $? = 0 ] || stopped=$((stopped + 1))
            left=$((left + $(find "$work" -maxdepth 1 -name 's*.tmp.*' | wc -l)))
            rm -rf "$work"/s "$work"/s.*
        done
    done
    [ $stopped -gt 0 ] || fail "${command%% *} was never stopped"
    [ $left = 0 ] || fail "${command%% *} left $left temporary files"
done

finish
