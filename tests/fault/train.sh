#!/usr/bin/env bash
# A training with a branch is killed before file operations and at random moments, $QTRAJ_KILLS (20) times in all, each time from the
# start: a later start ends with the bits of a training that was not. A full disk ends it with exit code 3, and nothing half written
# has a final name.
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/train.sh"
kills=${QTRAJ_KILLS:-20}
mkdir "$work/here" && cd "$work/here" || exit 2
runs_file runs.yaml
export FAULT_FOLDER=$work/here FAULT_REPORT=$work/report FAULT_STATE=$work/disk FAULT_CALLS=open,write,sync,rename,truncate
"$QTRAJ" train runs.yaml --set output=undisturbed 2>"$work/err" || fail "undisturbed: $(cat "$work/err")"
FAULT_AT=0 FAULT_DO=kill LD_PRELOAD=$FAULT_LIBRARY "$QTRAJ" train runs.yaml --set output=counted 2>"$work/err" || fail "counting: $(cat "$work/err")"
calls=$(grep -oE '[0-9]+' "$work/report" | head -n 1)
[ "${calls:-0}" -gt 100 ] || fail "calls: $(cat "$work/report")"

# resume CASE: starts again and compares
resume() {
    rm -f "$work/report"
    "$QTRAJ" train runs.yaml --set output=killed 2>"$work/err" || fail "$1: restart: exit code $?: $(cat "$work/err")"
    same_training undisturbed killed || fail "$1"
    rm -rf killed
}
for i in $(seq "$kills"); do
    if [ $((i % 4)) = 0 ]; then
        "$QTRAJ" train runs.yaml --set output=killed 2>"$work/err" &
        pid=$!
        sleep "$(awk -v seed="$i" 'BEGIN { srand(seed); printf "%.3f", 0.2 + 2.5 * rand() }')"
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        resume "killed after a while ($i)"
    else
        at=$((1 + (i - 1) * calls / kills))
        { FAULT_AT=$at FAULT_DO=kill LD_PRELOAD=$FAULT_LIBRARY "$QTRAJ" train runs.yaml --set output=killed 2>"$work/err"; } 2>/dev/null
        [ -e "$work/report" ] || fail "no kill at call $at"
        resume "killed at call $at ($(cat "$work/report"))"
    fi
done

for i in 1 2 3 4; do
    at=$((i * calls / 5)) code=0
    FAULT_CALLS=write FAULT_STAYS=1 FAULT_AT=$((at / 4)) FAULT_DO=ENOSPC LD_PRELOAD=$FAULT_LIBRARY \
        "$QTRAJ" train runs.yaml --set output=killed 2>"$work/err" || code=$?
    [ $code = 3 ] || fail "full disk at $at: exit code $code: $(cat "$work/err")"
    tail -n 1 "$work/err" | grep -q "error: .*[Nn]o space" || fail "full disk: $(tail -n 1 "$work/err")"
    find killed -name '*.tmp.*' | grep -q . && fail "full disk: $(find killed -name '*.tmp.*')"
    resume "full disk at call $at"
done
finish
