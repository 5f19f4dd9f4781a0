#!/usr/bin/env bash
# Limits of the system that end other programs or make them wait for ever: address space, size of files, closed pipes, and
# a FIFO where a file belongs. Each is one clear message with the right exit code, and a signal ends a run that waits.
. "$SOURCE/tests/tools/lib.sh"
memory_as_users_have

own_text "$work/text.txt"
quickstart_sweep '1,2p' <<'YAML'
name: limits
results: limits.h5
bits: [3]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: own, text: text.txt, length: 64, samples: 4}]
YAML
step=$quickstart/trajectory/step000100

# ends CODE NAME TEXT: how the last command ended ($status), and that $work/err says TEXT.
ends() {
    [ "$status" = "$1" ] || fail "$2: exit code $status, expected $1: $(cat "$work/err")"
    grep -qF -- "$3" "$work/err" || fail "$2: does not say \"$3\": $(cat "$work/err")"
}

# --- address space: OpenBLAS would try to map its buffers for ever. How much a process maps before differs between machines, ---
# --- so several limits are tried: none hangs, and one of them is in the buffers' way. In the last, Open MPI cannot connect all ---
# --- ranks on some machines, and says so only in a warning ---
said=0
for try in "300000 1" "350000 1" "300000 2" "350000 2" "400000 3"; do
    read -r limit ranks <<<"$try"
    rm -f "$work"/limits.*
    (
        ulimit -v "$limit"
        OMP_NUM_THREADS=$((ranks < 2 ? ranks : 2)) QTRAJ_PATIENCE=5 QTRAJ_MEET=5 launch 60 "$ranks" run "$work/sweep.yaml"
    )
    status=$?
    [ $status != 124 ] || fail "$ranks ranks in $limit KiB: a hang"
    grep -qF "the ranks have not connected" "$work/err" || [ $status != 4 ] || ends 4 "$ranks ranks in $limit KiB" "out of memory: "
    ! grep -qF "out of memory: BLAS needs a buffer" "$work/err" || said=$((said + 1))
done
[ $said -gt 0 ] || fail "no limit met the buffers of BLAS"
[ ! -e "$work/limits.journal.lock" ] || fail "a lock is left"

# --- size of files: the run stops as on a full disk, and continues without the limit ---
(
    ulimit -f 64 # KiB: the cube is larger
    export OMPI_MCA_btl=self OMPI_MCA_ess_singleton_isolated=1 # without files of MPI's own
    timeout 60 "$QTRAJ" run "$work/sweep.yaml" 2>"$work/err"
)
status=$?
ends 3 "a limit of 64 KiB for files" "File too large"
launch 60 1 run "$work/sweep.yaml"
status=$?
ends 0 "without the limit" "1 of 1 cells done"

# --- processes alone use no folder of Open MPI, which all of a user's would share: one that ends removes it under another ---
mkdir "$work/room"
for host in "$(hostname)" "$(hostname -s)"; do echo "no folder" >"$work/room/ompi.$host.$(id -u)"; done
TMPDIR=$work/room timeout 60 "$QTRAJ" show "$work/limits.h5" >/dev/null 2>"$work/err"
status=$?
[ $status = 0 ] || fail "a process alone without Open MPI's folder: exit code $status: $(cat "$work/err")"

# --- a closed pipe for the output ---
exec {pipe}> >(exit 0)
wait $!
timeout 60 "$QTRAJ" show "$work/limits.h5" >&$pipe 2>"$work/err"
status=$?
[ $status = 3 ] && [ ! -s "$work/err" ] || fail "a closed pipe: exit code $status, expected 3 without a message: $(cat "$work/err")"
# a run whose messages nobody reads goes on
rm "$work"/limits.*
timeout 60 "$QTRAJ" run "$work/sweep.yaml" 2>&$pipe
status=$?
[ $status = 0 ] || fail "a closed pipe for the messages: exit code $status, expected 0"
exec {pipe}>&-

# --- a FIFO where a file belongs: refused, or a signal ends the run that waits for it ---
for name in pipe.journal.lock pipe.journal; do
    rm -f "$work"/pipe.*
    mkfifo "$work/$name"
    timeout -k 20 3 "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/pipe.h5" >/dev/null 2>"$work/err"
    status=$?
    [ $status = 2 ] || [ $status = 124 ] || fail "a FIFO $name: exit code $status, expected 2, or an end by SIGTERM"
done
finish
