#!/usr/bin/env bash
# Strangers on the network: QTRAJ_STRANGERS connections (garbage, half-open, wrong secrets) to `qtraj launch` while it waits for a rank,
# and to rank 0 while it waits for a replacement, change nothing: the run goes on and gives the cube of an undisturbed one.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
strangers=${QTRAJ_STRANGERS:-600}
take_faults
export QTRAJ_MEET=200
quickstart_sweep '1p;2p' fixed_text <<YAML
name: strangers
results: whole.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, skip: 4, samples: 2}]
YAML
timeout 120 "$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "undisturbed: $(tail -n 5 "$work/err")"

# stopped: a rank that a fault has stopped; rank_0
stopped() { grep -lzs "^FAULTS=$FAULTS\$" /proc/[0-9]*/environ | cut -d/ -f3 | while read -r p; do grep -qs '^State:.T' "/proc/$p/status" && echo "$p"; done; }
has_stopped() { [ -n "$(stopped)" ]; }
rank_0() { grep -o '"pid":[0-9]*' "$work/among.journal.lock" | cut -d: -f2; }
worker() { ls "$FAULTS/at" | head -n 1; }
visiting() { [ -n "$(worker)" ]; }

touch "$FAULTS/load.1.19" "$FAULTS/hold" # before it connects to launch
LD_PRELOAD=$FAULT timeout -k 5 300 "$QTRAJ" launch -n 3 "$work/sweep.yaml" --set "results=$work/among.h5" >"$work/out" 2>"$work/err" </dev/null &
run=$!
wait_for 60 has_stopped
"$python" "$SOURCE/tests/fault/strangers.py" "$(pgrep -P $run)" "$strangers" || fail "launch"
kill -CONT "$(stopped)"
wait_for 60 visiting
touch "$FAULTS/met.0.19" # a replacement is rank 0 of its own world
kill -9 "$(worker)"
wait_for 60 has_stopped
"$python" "$SOURCE/tests/fault/strangers.py" "$(rank_0)" "$strangers" || fail "rank 0"
kill -CONT "$(stopped)"
rm "$FAULTS/hold"
wait $run
code=$?
[ $code = 0 ] || fail "exit code $code: $(tail -n 5 "$work/err")"
grep -q 'starting the run again' "$work/err" && fail "the run was started again: $(cat "$work/err")"
compare whole among
finish
