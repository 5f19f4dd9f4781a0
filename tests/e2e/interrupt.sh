# An interruption in the middle of a visit, by kill -9 and by a signal, alone and under mpirun: cells that were scored are in the
# journal, the end is recorded and the lock gone after the signal, a long visit saves its state, a restart makes only what is missing,
# and its cube is that of an undisturbed run.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
export OMPI_MCA_btl_vader_backing_directory=$work # files of killed jobs go with the scratch folder
export OMPI_MCA_odls_base_sigkill_timeout=5       # not 1 s: a busy machine may need longer to write an end record

quickstart_sweep '1p;9p' fixed_text <<YAML
name: interrupt
results: whole.h5
bits: [4]
methods: [{method: rtn, group_size: 64}, {method: gptq, group_size: 64}]
calibration: {text: text.txt, length: 64, samples: 4}
evaluation: [{name: text, text: text.txt, length: 64, skip: 4, samples: 5}]
curvature: {second_order: total, critical: true, sequences: 3, length: 64, together: 1}
YAML
# Curvature as well, a long one: what a signal interrupts.
long=(--set curvature.trace=100000)

# records JOURNAL TYPE: how many there are
records() { grep -c "\"type\":\"$2\"" "$1" 2>/dev/null; }

# has_records JOURNAL TYPE N: whether there are so many
has_records() { [ "$(records "$1" "$2")" -ge "$3" ]; }

# check_end NAME: the journal ends with "stopped", and no lock, list of running visits or temporary file is left
check_end() {
    tail -n 1 "$work/$1.journal" | grep -q '"status":"stopped"' || fail "$1: no end record: $(tail -n 1 "$work/$1.journal" | cut -c1-200)"
    [ ! -e "$work/$1.journal.lock" ] || fail "$1: the lock is left"
    [ ! -e "$work/$1.journal.running" ] || fail "$1: the list of running visits is left"
    ls "$work/$1".h5.tmp.* >/dev/null 2>&1 && fail "$1: a temporary file is left"
}

# now; written FILE: when it was written to last; milliseconds
now() { date +%s%3N; }
written() { stat -c %.3Y "$1" | tr -d .; }

launch 120 1 run "$work/sweep.yaml" || fail "undisturbed: exit code $?: $(cat "$work/err")"
grep -q '2 cells to do' "$work/err" || fail "undisturbed: $(cat "$work/err")"

# kill -9 when both cells are scored and no prediction is made, or one.
for predictions in 0 1; do
    name=killed$predictions
    "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/$name.h5" >"$work/out" 2>"$work/err" </dev/null &
    run=$!
    [ $predictions = 0 ] && wait_for 60 has_records "$work/$name.journal" cell 2 || wait_for 60 has_records "$work/$name.journal" completion 1
    kill -9 $run
    wait $run 2>/dev/null
    done_cells=$("$QTRAJ" status "$work/$name.journal" --json | "$python" -c "import json, sys; print(json.load(sys.stdin)['all']['done'])")
    [ "$done_cells" = 2 ] || fail "$name: $done_cells cells done after the kill"
    completed=$(records "$work/$name.journal" completion)
    "$QTRAJ" status "$work/$name.journal" --exit-code >"$work/out"
    code=$?
    [ "$completed" -ge 3 ] || [ $code = 3 ] || fail "$name: status ends with $code though predictions are missing: $(cat "$work/out")"
    [ "$completed" -ge 3 ] || grep -q "^predictions: $((3 - completed)) pending" "$work/out" ||
        fail "$name: status does not count what is missing: $(cat "$work/out")"
    launch 120 2 run "$work/sweep.yaml" --set "results=$work/$name.h5" || fail "$name, again: exit code $?: $(cat "$work/err")"
    echo "$name: killed with 2 cells and $completed completions; $(head -n 3 "$work/err" | tr '\n' ';')"
    grep -q '[1-9] cells\? to do' "$work/err" && fail "$name: cells are scored again: $(cat "$work/err")"
    [ "$completed" -ge 3 ] || grep -q 'predictions of [12] scored cells\? to do' "$work/err" || [ "$completed" = 2 ] ||
        fail "$name: predictions are not made: $(cat "$work/err")"
    [ "$(records "$work/$name.journal" cell)" = 2 ] || fail "$name: cells were recorded again"
    "$QTRAJ" status "$work/$name.journal" --exit-code >"$work/out" || fail "$name: status ends with $?: $(cat "$work/out")"
    compare whole $name
    before=$(stat -c %y "$work/$name.journal" "$work/$name.h5")
    launch 120 1 run "$work/sweep.yaml" --set "results=$work/$name.h5" || fail "$name, a third time: exit code $?"
    grep -q 'nothing to do' "$work/err" || fail "$name, a third time: $(cat "$work/err")"
    [ "$(stat -c %y "$work/$name.journal" "$work/$name.h5")" = "$before" ] || fail "$name: a run without work writes journal or cube"
done

# A signal alone: code 3 at once, whatever is computed (it would take minutes; how many milliseconds it took is printed).
for signal in INT TERM; do
    name=alone$signal
    # a shell's background jobs ignore SIGINT until the program asks for it
    "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/$name.h5" "${long[@]}" >"$work/out" 2>"$work/err" </dev/null &
    run=$!
    wait_for 60 has_records "$work/$name.journal" completion 3
    start=$(now)
    kill -$signal $run
    wait $run
    code=$?
    took=$(($(now) - start))
    echo "alone, SIG$signal: exit code $code after $took ms, end record after $(($(written "$work/$name.journal") - start)) ms"
    [ $code = 3 ] || fail "$name: exit code $code: $(cat "$work/err")"
    [ $took -lt 20000 ] || fail "$name: it took $took ms to end"
    check_end $name
done

# Under mpirun, which ends with 1 and kills its ranks a second after the signal.
bash -c 'trap - INT; exec mpirun -n 3 "$@"' mpirun "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/three.h5" "${long[@]}" \
    >"$work/out" 2>"$work/err" </dev/null &
run=$!
wait_for 60 has_records "$work/three.journal" completion 3
start=$(now)
kill -TERM $run
wait $run
echo "mpirun: exit code $? after $(($(now) - start)) ms, end record after $(($(written "$work/three.journal") - start)) ms"
check_end three
[ "$(records "$work/three.journal" cell)" = 2 ] || fail "three: a scored cell is lost"

# The next run goes on, here with nothing but the cube to make.
[ "$(stat -c %Y "$work/three.h5" 2>/dev/null || echo 0)" -lt "$(date +%s)" ] || sleep 1
launch 120 3 run "$work/sweep.yaml" --set "results=$work/three.h5" || fail "three, again: exit code $?: $(cat "$work/err")"
compare whole three

# One signal within a visit: its state is saved after the variant that a block is passing through, and the next run computes only what
# is left. launch passes signals on; a rank of mpirun has until odls_base_sigkill_timeout. A second one ends at once (the grace would be as
# long as the run has been: five seconds).
sed -i 's/^methods:.*/methods: [{method: trellis, trellis_window: 8}]/; s/^bits:.*/bits: [2, 3, 4]/; /^curvature:/d' "$work/sweep.yaml"
# start NAME COMMAND ARGUMENT ...
start() {
    local command=("$QTRAJ" $2)
    [ "$2" != mpirun ] || command=(env OMPI_COMM_WORLD_SIZE=1 "$QTRAJ" run)
    "${command[@]}" "$work/sweep.yaml" --set "results=$work/$1.h5" "${@:3}" >"$work/out" 2>"$work/err" </dev/null &
    run=$!
}
# hold NAME COMMAND: the same, until it is in its second block, where the rank of the visit waits until the signal has come. So many seconds
# after the start its state is worth a save, and the grace lasts as long.
hold() {
    KILL_WAITS=1 KILL_COUNT=1 KILL_TEXT=': block 1 ' LD_PRELOAD=$(dirname "$QTRAJ")/libkill_at_line.so start "$@"
    wait_for 120 grep -q 'trace visit.*block 1 ' "$work/err"
    sleep 3
}
export QTRAJ_TRACE=visit,saved
for command in run 'launch -n 2' mpirun; do
    name=block${command%% *}
    hold "$name" "$command"
    kill -INT $run
    wait $run
    code=$?
    [ $code = 3 ] || fail "$name: exit code $code: $(cat "$work/err")"
    check_end "$name"
    grep -q 'trace saved.*: state 1' "$work/err" || fail "$name: nothing is saved: $(cat "$work/err")"
    [ "$(grep -c 'trace visit.*: block' "$work/err")" = 4 ] || fail "$name: it does not end after the variant: $(cat "$work/err")"
    start "$name" "$command"
    wait $run || fail "$name, again: exit code $?: $(cat "$work/err")"
    grep -q '1 of 4 blocks are done, and variants of the next one$' "$work/err" || fail "$name, again: $(cat "$work/err")"
    [ "$(grep -c 'trace visit.*: block' "$work/err")" = 8 ] || fail "$name, again: not what is left of 12 - 4: $(cat "$work/err")"
done
compare blockrun blockmpirun
compare blockrun blocklaunch
# SIGUSR1 lets the visit end; threads of BLAS, which launch has too, would not block it.
hold drained 'launch -n 2'
kill -USR1 $run
wait $run
code=$?
[ $code = 0 ] || [ $code = 3 ] || fail "SIGUSR1: exit code $code: $(cat "$work/err")"
compare blockrun drained
start twice run --set methods[0].trellis_window=16
wait_for 60 grep -q 'to do' "$work/err"
sleep 5
begun=$(now)
kill -TERM $run && sleep 0.1 && kill -TERM $run
wait $run
code=$?
echo "two signals: exit code $code after $(($(now) - begun)) ms"
[ $code = 3 ] && [ $(($(now) - begun)) -lt 4000 ] || fail "two signals: exit code $code after $(($(now) - begun)) ms"
check_end twice
finish
