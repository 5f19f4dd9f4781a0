#!/usr/bin/env bash
# A journal of 3,000 cells with 150 losses per sequence and 40 layers each, 60 MB: the memory of plan, status and show goes
# with the number of cells, not with what was measured per sequence and layer; that of rebuild and run with the size of the cube,
# not with that of its records as JSON; the cube shows what its journal does.
# tests/bench/long_sweep.py measures 10^5 cells.
. "$SOURCE/tests/tools/lib.sh"
memory_as_users_have
build=$(dirname "$QTRAJ")
[ -x "$build/bench_journal" ] || skip "bench_journal was not built"
need_python sys

"$python" "$SOURCE/tests/bench/long_sweep.py" "$build" --cells 3000 --sequences 150 --layers 40 --memory 100 --writing 180 \
    --keep "$work" >"$work/table" 2>&1 || fail "too much memory, or a command failed"
cat "$work/table"
[ "$(grep -c ' MB' "$work/table")" = 11 ] || fail "expected eleven measurements"
for arguments in "" "--csv" "--metric kl_divergence --only bits=3" "--kind checkpoint --only checkpoint=step1?"; do
    # shellcheck disable=SC2086 # several words
    for from in journal h5; do
        "$QTRAJ" show "$work/long.$from" $arguments >"$work/$from" 2>&1 || fail "show $arguments: $(tail -1 "$work/$from")"
    done
    cmp -s "$work/journal" "$work/h5" || fail "show $arguments: the cube differs from its journal"
done
finish
