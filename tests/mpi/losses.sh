#!/usr/bin/env bash
# Ranks that die, hang or are stopped in the middle of a run: under `qtraj launch` (mpirun --enable-recovery) the run ends with every
# cell done once and the cube of an undisturbed run; a visit that takes its ranks three times fails; what is left of a run
# whose rank 0 died leaves; without recovery the run says who is lost, ends with 3 and resumes; launch returns the run's code.
# QTRAJ_VISITS one-cell visits, QTRAJ_LOSSES workers killed, QTRAJ_MASTERS masters killed; tests/README.md has the long form.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
take_faults
visits=${QTRAJ_VISITS:-12} losses=${QTRAJ_LOSSES:-0} masters=${QTRAJ_MASTERS:-1}
export QTRAJ_MEET=200 # ranks of a busy machine may need longer to connect than by default
repeated_sweep "$visits" <<YAML
name: losses
results: whole.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, skip: 4, samples: 2}]
YAML

# start NAME COMMAND ...: the command in the background as $run, with the faults and the results NAME.h5
start() {
    name=$1
    shift
    rm -f "$FAULTS"/at/* "$FAULTS"/late/*
    LD_PRELOAD="$FAULT ${preload-}" "$@" "$work/sweep.yaml" --set "results=$work/$name.h5" >"$work/out" 2>"$work/err" </dev/null &
    run=$!
}
launched() { start "$1" "$QTRAJ" launch -n "$2" "${@:3}"; }

# until COMMAND ...: it succeeds within five minutes
until_true() {
    for _ in $(seq 6000); do
        "$@" && return
        kill -0 $run 2>/dev/null || break
        sleep 0.05
    done
    "$@" || fail "$name: never '$*': $(tail -n 20 "$work/err")"
}

# ended CODE: the run has ended with that code within five minutes, and none of its processes is left after QTRAJ's minute
ended() {
    for _ in $(seq 6000); do
        kill -0 $run 2>/dev/null || break
        sleep 0.05
    done
    kill -9 $run 2>/dev/null && fail "$name: it hangs: $(tail -n 20 "$work/err")"
    wait $run
    code=$?
    [ $code = "$1" ] || fail "$name: exit code $code, not $1: $(tail -n 20 "$work/err")"
    for _ in $(seq 1200); do
        [ -n "$(ours)" ] || return
        sleep 0.05
    done
    fail "$name: processes are left: $(ours)"
}
# ours: the processes of this test's runs, but launch and mpirun
ours() { grep -lzs "^FAULTS=$FAULTS\$" /proc/[0-9]*/environ | cut -d/ -f3 | while read -r p; do
    grep -qz '^run$' "/proc/$p/cmdline" 2>/dev/null && ! grep -q mpirun "/proc/$p/comm" 2>/dev/null && echo "$p"
done; }
# workers: those that are in a visit; visit_of PID; hits VISIT
workers() { (cd "$FAULTS/at" && for p in *; do [ -e "/proc/$p" ] && echo "$p"; done) 2>/dev/null; }
visit_of() { cat "$FAULTS/at/$1"; }
has_late() { [ -n "$(ls "$FAULTS/late")" ]; }
at_least() { [ "$(workers | wc -l)" -ge "$1" ]; }
master() { grep -o '"pid":[0-9]*' "$work/$name.journal.lock" | cut -d: -f2; }
# breathe SECONDS: the workers go on for that long
breathe() {
    rm "$FAULTS/hold"
    sleep "$1"
    touch "$FAULTS/hold"
}
has_cells() { [ "$(cells "$name")" -ge "$1" ]; }
cells() { grep -c '"type":"cell"' "$work/$1.journal" 2>/dev/null; }
# each_once NAME: as many cells as visits, none twice; the cube is that of the undisturbed run
each_once() {
    [ "$(cells "$1")" = "$visits" ] || fail "$1: $(cells "$1") cells of $visits"
    [ "$(grep '"type":"cell"' "$work/$1.journal" | grep -o '"key":"[0-9a-f]*"' | sort -u | wc -l)" = "$visits" ] || fail "$1: a cell is there twice"
    compare whole "$1"
}

"$QTRAJ" run "$work/sweep.yaml" >"$work/out" 2>"$work/err" || fail "undisturbed: $(cat "$work/err")"

# Workers die at the opening of their visit, one of them twice.
touch "$FAULTS"/kill.v00{2.1,4.1,6.1,6.2}
launched dying 4
ended 0
[ "$(grep -c '"type":"loss"' "$work/dying.journal")" = 4 ] || fail "dying: not four losses: $(cat "$work/err")"
each_once dying

# Workers killed at the opening of their visit or at a random moment after it, no visit more than twice.
declare -A hits
killed=0
# strike PID: kills the worker, unless its visit was hit twice. It is stopped first, so that the visit is the one that it is in.
strike() {
    local v
    kill -STOP "$1" 2>/dev/null || return
    v=$(visit_of "$1" 2>/dev/null)
    if [ -z "$v" ] || [ "${hits[$v]:-0}" -ge 2 ]; then
        kill -CONT "$1"
        return 1
    fi
    kill -9 "$1"
    rm -f "$FAULTS/at/$1"
    hits[$v]=$((${hits[$v]:-0} + 1))
    killed=$((killed + 1))
}
strike_one() { for p in $(workers | shuf); do strike "$p" && return; done; }
[ "$losses" = 0 ] || touch "$FAULTS/hold"
[ "$losses" = 0 ] || launched killed 4
while [ $killed -lt "$losses" ] && kill -0 $run 2>/dev/null; do
    until_true at_least 1
    # at first at the opening of the visits, then at any moment
    [ $((killed * 2)) -le "$losses" ] || [ $((RANDOM % 4)) != 0 ] || breathe "0.0$((RANDOM % 9 + 1))"
    strike_one || breathe 0.05
done
rm -f "$FAULTS/hold"
if [ "$losses" != 0 ]; then
    ended 0
    [ $killed = "$losses" ] || fail "killed: only $killed of $losses workers, then it ended"
    echo "killed: $killed workers in ${#hits[@]} visits; started again $(grep -c 'starting the run again' "$work/err") times; $(tail -n 1 "$work/err" | cut -c1-100)"
    each_once killed
fi

# A rank that hangs, and one that is stopped for longer than it may, with its result ready to be sent. It is woken up, and
# sends the result: too late, it changes nothing. Then a group that loses a member.
export QTRAJ_PATIENCE=8
touch "$FAULTS/hang.v001" "$FAULTS/late.v002"
QTRAJ_TRACE=sched launched stopped 4
until_true test ! -e "$FAULTS/hang.v001"
until_true has_late
late=$(ls "$FAULTS/late")
kill -STOP "$late"
until_true grep -q "process $late) has been silent" "$work/err"
rm "$FAULTS/late.v002"
kill -CONT "$late"
until_true grep -q 'has made no progress' "$work/err"
ended 0
grep -q 'a message of rank [1-3], which is written off, is dropped: a result' "$work/err" || fail "stopped: no late result: $(cat "$work/err")"
each_once stopped
unset QTRAJ_PATIENCE
touch "$FAULTS/kill.v002.1"
launched group 5 --set run.ranks_per_group=2
ended 0
grep -q 'has died after .* in m v002; what is missing of it goes to another' "$work/err" || fail "group: $(cat "$work/err")"
[ "$(cells group)" = "$visits" ] || fail "group: $(cells group) cells of $visits"

# Poison: in one run, then tried again; and over restarts, without recovery, where each loss ends the run.
touch "$FAULTS"/kill.v003.{1,2,3}
launched poison 3
ended 1
"$QTRAJ" status "$work/poison.h5" >"$work/status"
grep -q 'lost 3 times' "$work/status" || fail "poison: $(cat "$work/status")"
launched poison 3 --retry failed
ended 0
each_once_done=$("$QTRAJ" status "$work/poison.h5" --exit-code >"$work/status" && echo yes)
[ "$each_once_done" = yes ] || fail "poison, tried again: $(cat "$work/status")"
# A visit that is killed at every second state that it saves advances, and is not poison.
export KILL_COUNT=2 KILL_TEXT=': state ' QTRAJ_SAVE=always QTRAJ_TRACE=saved
preload=$(dirname "$QTRAJ")/libkill_at_line.so
launched advancing 2 --only checkpoint=v001 --set curvature.trace=5 --set curvature.together=1 --set curvature.sequences=1 --set curvature.length=32
ended 0
unset KILL_COUNT KILL_TEXT QTRAJ_SAVE QTRAJ_TRACE preload
kills=$(grep -c '"type":"loss"' "$work/advancing.journal")
[ "$kills" -gt 3 ] || fail "advancing: only $kills losses: $(cat "$work/err")"
[ "$(grep '"type":"loss"' "$work/advancing.journal" | grep -c '"count":1,')" = "$kills" ] || fail "advancing: losses that count: $(cat "$work/err")"
touch "$FAULTS"/kill.v003.{1,2,3}
for i in 1 2 3; do
    start restarts mpirun -n 3 "$QTRAJ" run
    wait $run
    grep -q 'v003' "$work/err" || fail "restarts: start $i does not say who is lost: $(cat "$work/err")"
done
start restarts mpirun -n 3 "$QTRAJ" run
ended 1
[ "$(grep -c '"type":"loss"' "$work/restarts.journal")" = 3 ] || fail "restarts: not three losses"

# Without recovery a visit that hangs ends the run, which says who did what.
export QTRAJ_PATIENCE=8
touch "$FAULTS/hang.v001"
start hanging mpirun -n 3 "$QTRAJ" run
ended 3
grep -q 'rank [12] (.*) has made no progress for .* s after .* s in m v001' "$work/err" || fail "hanging: $(cat "$work/err")"
QTRAJ_PATIENCE=2 # a process alone; without mpirun the library would take it for rank 0
touch "$FAULTS/hang.v001"
start alone mpirun -n 1 "$QTRAJ" run
ended 3
grep -q 'm v001 has made no progress for' "$work/err" || fail "alone: $(cat "$work/err")"
tail -n 1 "$work/alone.journal" | grep -q '"status":"stopped"' || fail "alone: no end record"
# a rank that never answers at the start
touch "$FAULTS/hang.start"
QTRAJ_MEET=2 start apart mpirun -n 3 "$QTRAJ" run
ended 4
grep -q 'the ranks have not connected within 2 s' "$work/err" || fail "apart: $(cat "$work/err")"
[ "$(grep -c 'qtraj: error' "$work/err")" = 1 ] || fail "apart: more than one message: $(cat "$work/err")"
unset QTRAJ_PATIENCE

# Masters killed: launch returns 3, nobody is left, and the last start completes the run.
for i in $(seq "$masters"); do
    touch "$FAULTS/hold"
    launched master 4
    until_true at_least 1
    if [ "$masters" -gt 1 ]; then
        rm "$FAULTS/hold"
        until_true has_cells $((i * visits / (masters + 10)))
        touch "$FAULTS/hold"
    fi
    kill -9 "$(master)"
    rm "$FAULTS/hold"
    ended 3
done
launched master 4
ended 0
each_once master

# A master that sleeps until another run has taken its lock, with results of its workers waiting for it, leaves without writing.
touch "$FAULTS/hold"
QTRAJ_LEASE=2 launched asleep 4
until_true at_least 3
asleep=$(master)
kill -STOP "$asleep"
rm "$FAULTS/hold"
until "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/asleep.h5" 2>"$work/taken"; do
    grep -q 'held by process' "$work/taken" || { fail "taking over: $(cat "$work/taken")"; break; }
done
before=$(cat "$work"/asleep.journal "$work"/asleep.h5 | md5sum)
kill -CONT "$asleep"
ended 3
grep -q 'taken over by' "$work/err" || fail "asleep: it does not say why it leaves: $(cat "$work/err")"
[ "$(cat "$work"/asleep.journal "$work"/asleep.h5 | md5sum)" = "$before" ] || fail "a master that woke up late has written"
each_once asleep

# Signals to launch, and the death of mpirun: 3, with an end record, and no lock is left.
touch "$FAULTS/hold"
for signals in INT TERM "INT INT" mpirun; do
    launched "signal${signals// /}" 4
    until_true at_least 3
    if [ "$signals" = mpirun ]; then
        kill -9 "$(pgrep -P $run mpirun)"
    else
        for s in $signals; do kill -"$s" $run; sleep 0.2; done
    fi
    ended 3
    tail -n 1 "$work/$name.journal" | grep -q '"type":"end"' || fail "$name: no end record"
    ls "$work/$name".*lock >/dev/null 2>&1 && fail "$name: the lock is left"
done
rm "$FAULTS/hold"
launched usage 2 --only bits=9
ended 2
finish
