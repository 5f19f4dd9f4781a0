#!/usr/bin/env bash
# The beginning of runs: a rank that is killed or stopped before, in or after MPI_Init is named and the run started again; one that
# replaces another has come when it has met rank 0; what a parent has done to SIGCHLD, and a TMPDIR that is missing or full, lets
# nothing hang.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
take_faults
quickstart_sweep '1p;2p' fixed_text <<YAML
name: start
results: whole.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, skip: 4, samples: 2}]
YAML
sed -i "s|text: text.txt|text: $work/text.txt|; s|trajectory: trajectory.csv|trajectory: $work/trajectory.csv|" "$work/sweep.yaml" # is copied below

# start NAME COMMAND ...: the run with the results NAME.h5; $code, 124 if it hangs
start() {
    name=$1
    shift
    timeout -k 5 90 "$@" "$work/sweep.yaml" --set "results=$work/$name.h5" >"$work/out" 2>"$work/err" </dev/null
    code=$?
}
# same CODE: it has ended so, with the results of the first; no process is left
same() {
    [ $code = "$1" ] || fail "$name: exit code $code, not $1: $(tail -n 5 "$work/err")"
    [ -z "$(left)" ] || fail "$name: processes are left: $(left)"
    [ "$1" != 0 ] || compare whole "$name"
}
left() { grep -lzs "^FAULTS=$FAULTS\$" /proc/[0-9]*/environ | cut -d/ -f3 | while read -r p; do
    grep -qzE '^(run|launch)$' "/proc/$p/cmdline" 2>/dev/null && echo "$p"
done; }
says() { grep -qE "$1" "$work/err" || fail "$name: it does not say '$1': $(tail -n 5 "$work/err")"; }

start whole "$QTRAJ" run
[ $code = 0 ] || fail "whole: $code: $(tail -n 5 "$work/err")"

faulty_ranks() {
    # rank 0 and another one, killed (9) or stopped (19)
    for fault in load.0.19:6:'rank 0 has not come: ' init.0.9:90:'rank 0 \(.*\) has ended before all' met.1.19:6:'rank 1 is silent'; do
        IFS=: read -r file seconds words <<<"$fault"
        touch "$FAULTS/$file"
        QTRAJ_MEET=$seconds LD_PRELOAD=$FAULT start "$file" "$QTRAJ" launch -n 3
        says "$words"
        says 'starting the run again'
        grep -q 'memory' "$work/err" && fail "$name: it blames memory: $(tail -n 5 "$work/err")"
        same 0
    done
    # without launch the others end; each start of a rank 2 is stopped, and launch gives up
    touch "$FAULTS/init.1.19"
    QTRAJ_MEET=3 LD_PRELOAD=$FAULT start plain mpirun -n 3 "$QTRAJ" run
    says 'have not connected within 3 s: one has died or is stopped'
    same 4
    touch "$FAULTS"/load.2.9{,.again,.more}
    LD_PRELOAD=$FAULT start never "$QTRAJ" launch -n 3 --meet 3
    [ "$(grep -c 'rank 2 has not come' "$work/err")" = 3 ] || fail "never: not three times: $(tail -n 5 "$work/err")"
    same 4
}

# A rank that replaces another meets rank 0 alone, and works for longer than that may take.
visits() { ls "$FAULTS/at" | grep -vx "${1:-none}" | head -n 1; }
visiting() { [ -n "$(visits "$@")" ]; }
replace() {
    wait_for 60 visiting || return
    killed=$(visits)
    kill -9 "$killed"
    wait_for 60 visiting "$killed"
    sleep 12
    rm "$FAULTS/hold"
}
replaced() {
    touch "$FAULTS/hold"
    replace &
    QTRAJ_MEET=10 LD_PRELOAD=$FAULT start replaced "$QTRAJ" launch -n 2 --meet 90
    wait
    grep -q 'have not connected' "$work/err" && fail "$name: a replacement is not counted as met: $(tail -n 5 "$work/err")"
    same 0
}

# The ranks do not reach launch, and the first visit waits for its checkpoint longer than they have to meet.
deaf() {
    cp "$quickstart"/trajectory/{tokenizer.json,step000100/config.json} "$work"
    sed "s|tokenizer: [^,}]*|tokenizer: tokenizer.json|; s|path: [^,]*|path: \"$work/store/{checkpoint}\", stage: [sh, -c, 'sleep 25; cp -r $quickstart/trajectory/{checkpoint}/. {path}']|" \
        -i "$work/sweep.yaml"
    touch "$FAULTS/deaf"
    QTRAJ_MEET=60 LD_PRELOAD=$FAULT start deaf "$QTRAJ" launch -n 2 --meet 15
    [ $code = 0 ] && [ -d "$work/store" ] || fail "$name: exit code $code: $(tail -n 5 "$work/err")"
    [ -z "$(ls "$work" | grep 'deaf.*tmp')" ] || fail "$name: a file is left"
}

surroundings() {
    # TMPDIR that is missing, or has no room
    TMPDIR=$work/none start missing "$QTRAJ" launch -n 2
    says "TMPDIR: $work/none: no file can be made there \(No such file or directory\)"
    same 2
    TMPDIR=$work/none start alone "$QTRAJ" run
    says "TMPDIR: $work/none"
    same 2
    mkdir "$work/full"
    if mount -t tmpfs -o size=1m none "$work/full" 2>/dev/null; then
        trap 'umount "$work/full"' EXIT
        TMPDIR=$work/full start full "$QTRAJ" launch -n 2
        says "TMPDIR: $work/full: less than 16 MiB of room \(No space left on device\)"
        same 3
    fi
    # a parent that ignores SIGCHLD
    start ignored env --ignore-signal=CHLD "$QTRAJ" launch -n 2
    same 0
    timeout -k 5 60 env --ignore-signal=CHLD "$QTRAJ" stage "$work/sweep.yaml" >"$work/out" 2>"$work/err"
    code=$?
    [ $code != 124 ] || fail "stage, SIGCHLD ignored: it hangs"
}

# Most of this is waiting: these run at once, each with folders of its own.
for part in faulty_ranks replaced deaf surroundings; do
    mkdir "$work/$part"
    cp "$work"/{sweep.yaml,whole.h5} "$work/$part"
    (
        work=$work/$part
        take_faults
        $part
        exit $failures
    ) >"$work/$part.said" 2>&1 &
    parts[$!]=$part
done
for process in "${!parts[@]}"; do
    wait "$process" || fail "${parts[$process]}: $(cat "$work/${parts[$process]}.said")"
done
finish
