#!/usr/bin/env bash
# A training with branches is killed before 15 file operations, each time from the start, and at $QTRAJ_KILLS (5) random moments of it or
# of what goes on from earlier kills, on different numbers of threads: a later start ends with the bits of a training that was not. A full
# disk ends it with exit code 3, and nothing half written has a final name. The same for a few kills of a model with ternary linears.
. "$SOURCE/tests/tools/lib.sh"
. "$SOURCE/tests/tools/train.sh"
kills=${QTRAJ_KILLS:-5}
mkdir "$work/here" && cd "$work/here" || exit 2
runs_file runs.yaml
sed -i 's/from: .9./from: [9, 15]/' runs.yaml
export FAULT_FOLDER=$work/here FAULT_REPORT=$work/report FAULT_STATE=$work/disk FAULT_CALLS=open,write,sync,rename,truncate
began=$(date +%s.%N)
"$QTRAJ" train runs.yaml --set output=undisturbed 2>"$work/err" || fail "undisturbed: $(cat "$work/err")"
seconds=$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')
FAULT_AT=0 FAULT_DO=kill LD_PRELOAD=$FAULT_LIBRARY "$QTRAJ" train runs.yaml --set output=counted 2>"$work/err" || fail "counting: $(cat "$work/err")"
calls=$(grep -oE '[0-9]+' "$work/report" | head -n 1)
[ "${calls:-0}" -gt 100 ] || fail "calls: $(cat "$work/report")"

# same CASE: what was killed has ended as what was not
same() {
    same_training "$whole" killed || fail "$1"
    rm -rf killed
}
# resume CASE: starts again and compares
resume() {
    rm -f "$work/report"
    "$QTRAJ" train runs.yaml "${more[@]}" --set output=killed 2>"$work/err" || fail "$1: restart: exit code $?: $(cat "$work/err")"
    same "$1"
}
# killed_at N: before N calls, as far from each other
killed_at() {
    for i in $(seq "$1"); do
        at=$((1 + (i - 1) * calls / $1))
        { FAULT_AT=$at FAULT_DO=kill LD_PRELOAD=$FAULT_LIBRARY "$QTRAJ" train runs.yaml "${more[@]}" --set output=killed 2>"$work/err"; } 2>/dev/null
        [ -e "$work/report" ] || fail "no kill at call $at"
        resume "$whole: killed at call $at ($(cat "$work/report"))"
    done
}
more=(--set model.linears=ternary --set model.family=bitnet) whole=ternary
"$QTRAJ" train runs.yaml "${more[@]}" --set output=ternary 2>"$work/err" || fail "ternary: $(cat "$work/err")"
killed_at 4
more=() whole=undisturbed
killed_at 15

done=0 trainings=0 at=""
for i in $(seq $((10 * kills))); do
    [ $done -lt "$kills" ] || break
    { OMP_NUM_THREADS=$((1 + i % 3)) "$QTRAJ" train runs.yaml --set output=killed 2>"$work/err" & } 2>/dev/null
    pid=$!
    sleep "$(awk -v seed="$i" -v most="$seconds" 'BEGIN { srand(seed); rand(); printf "%.3f", most * (0.1 + 1.9 * rand()) }')"
    kill -9 $pid 2>/dev/null
    { wait $pid; code=$?; } 2>/dev/null
    case $code in
    137) done=$((done + 1)) at="$at $(cat killed/*/steps.csv 2>/dev/null | wc -l)" ;;
    0) same "after $done random kills" && trainings=$((trainings + 1)) ;;
    *) fail "after $done random kills: exit code $code: $(cat "$work/err")" ;;
    esac
done
[ $done = "$kills" ] || fail "$done random kills of $kills"
[ ! -e killed ] || resume "after $done random kills"
echo "$done random kills, with so many lines in all steps.csv:$at; $trainings trainings to the end before the last"

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
