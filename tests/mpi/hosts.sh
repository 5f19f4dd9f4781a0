#!/usr/bin/env bash
# A group of ranks over two hosts gives the cube of the same group on one, bit for bit: weights are shared on each host and
# sent between them, quantized rows are exchanged, Hessians are summed, factored and distributed over both. The hosts are
# namespaces of this machine, each with its own name, network and /dev/shm, connected by a virtual cable. Skipped if the
# kernel or a container forbids namespaces, and with an MPI other than Open MPI.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py

# The script starts itself again inside the namespaces, as the first host, which has the near end of the cable.
if [ -z "${QTRAJ_HOSTS:-}" ]; then
    mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "not Open MPI"
    command -v ip >/dev/null && command -v nsenter >/dev/null || skip "no iproute2 or nsenter here"
    user=()
    [ "$(id -u)" = 0 ] || user=(--map-root-user)
    unshare "${user[@]}" --net --uts --mount sh -c 'hostname near && mount -t tmpfs none /dev/shm && ip link add cable type veth peer name end' \
        2>/dev/null || skip "hosts cannot be made here"
    rm -rf "$work"
    QTRAJ_HOSTS=1 TMPDIR=$(dirname "$work") exec unshare "${user[@]}" --net --uts --mount bash "$0"
fi

near=10.7.0.1 far=10.7.0.2
hostname near
unshare --net --uts --mount sh -c "hostname far; mount -t tmpfs none /dev/shm; ip link set lo up; exec sleep 600" &
other=$!
trap 'kill $other; rm -rf "$work"' EXIT
for _ in $(seq 50); do
    [ "$(nsenter -t $other -u hostname)" = far ] && break
    sleep 0.1
done
ip link set lo up
ip link add cable type veth peer name cable netns $other || skip "no cable between hosts here"
ip addr add $near/24 dev cable
ip link set cable up
nsenter -t $other -n sh -c "ip addr add $far/24 dev cable; ip link set cable up"

# Replaces ssh: mpirun passes a host and a command.
cat >"$work/agent" <<END
#!/bin/sh
[ "\$1" = $far ] || exit 1
shift
exec nsenter -t $other -n -u -m sh -c "\$*"
END
chmod +x "$work/agent"

# over NEAR FAR COMMAND ...: runs qtraj with NEAR and FAR ranks on the two hosts.
over() {
    local here=$1 there=$2
    shift 2
    timeout -k 5 300 mpirun --mca plm rsh --mca plm_rsh_agent "$work/agent" --mca btl self,vader,tcp --mca btl_tcp_if_include cable \
        --mca oob_tcp_if_include cable --mca mpi_yield_when_idle 1 --host "$near:$here,$far:$there" -n $((here + there)) \
        -x OMP_NUM_THREADS "$QTRAJ" "$@" >"$work/out" 2>"$work/err" </dev/null
}

over 1 1 doctor --json --results "$work" --scratch "$work"
grep -q '"nodes": 2' "$work/out" || skip "MPI does not start ranks on both hosts: $(head -c 2000 "$work/err")"

quickstart_sweep '1p;4p' <<'END'
name: hosts
results: results.h5
bits: [3]
methods:
  - {method: gptq, group_size: 64, scale_dtype: f16-packed}
  - {method: gptq, name: gptq-act, group_size: 64, order: activation, true_sequential: false}
  - {method: gptq, name: gptq-shared, group_size: 64, hessian: shared}
calibration: {text: text.txt, length: 128, samples: 10}
evaluation:
  - {name: docs, text: text.txt, length: 200, skip: 12, samples: 9}
END

# same NAME NEAR FAR SETTINGS: one group of all ranks except the master, which is on the near host.
same() {
    local name=$1 here=$2 there=$3 group=$(($2 + $3 - 1)) settings=()
    shift 3
    for s in "run.ranks_per_group=$group" "$@"; do settings+=(--set "$s"); done
    launch 300 $((group + 1)) run "$work/sweep.yaml" --set "results=$name.h5" "${settings[@]}" || fail "$name: $(cat "$work/err")"
    mv "$work/$name.h5" "$work/one-$name.h5"
    rm "$work/$name.journal"
    over "$here" "$there" run "$work/sweep.yaml" --set "results=$name.h5" "${settings[@]}" || fail "$name over two hosts: $(cat "$work/err")"
    compare "one-$name" "$name"
}
same pair 2 1
same four 3 2
same uneven 2 3 run.scalapack_from=1
same exact 3 1 run.reproducible=true
same curvature 2 2 'curvature={sharpness: lanczos, products: 3, second_order: layers, critical: true, sequences: 3, length: 32}'

# Rank 0 is stopped on the other host: launch, on this one, ends the run and starts it again.
take_faults
touch "$FAULTS/hold"
options="--mca plm rsh --mca plm_rsh_agent $work/agent --mca btl self,vader,tcp --mca btl_tcp_if_include cable"
options+=" --mca oob_tcp_if_include cable --host $far:3"
LD_PRELOAD=$FAULT QTRAJ_PATIENCE=8 timeout -k 5 300 "$QTRAJ" launch -n 3 --mpirun "$options" "$work/sweep.yaml" \
    --set results=stopped.h5 --set run.ranks_per_group=2 >"$work/out" 2>"$work/err" </dev/null &
run=$!
visiting() { [ -n "$(ls "$FAULTS/at")" ]; }
wait_for 120 visiting
kill -STOP "$(grep -o '"pid":[0-9]*' "$work/stopped.journal.lock" | cut -d: -f2)"
wait_for 120 grep -q 'rank 0 (far, .*) has been silent for' "$work/err"
rm "$FAULTS/hold"
wait $run || fail "stopped: exit code $?: $(cat "$work/err")"
compare one-pair stopped

# Ranks of a host share weights in /dev/shm, which is small in containers: if it is too small, a message, no hang, no crash.
export OMPI_MCA_btl=self,tcp # which takes none of it
for size in 64k 1m 2m 3m 4m 64m; do
    mount -t tmpfs -o size=$size none /dev/shm
    launch 60 3 run "$work/sweep.yaml" --set "results=shm$size.h5" --set run.ranks_per_group=2
    code=$?
    echo "/dev/shm of $size: exit code $code"
    [ $code = 0 ] || [ $code = 1 ] || fail "/dev/shm of $size: exit code $code: $(tail -n 30 "$work/err")"
    [ $code = 0 ] && compare one-pair "shm$size"
    [ $code = 1 ] && ! "$QTRAJ" status "$work/shm$size.h5" | grep -q 'there is not enough space in /dev/shm' &&
        fail "/dev/shm of $size: no message: $("$QTRAJ" status "$work/shm$size.h5")"
done
[ -e "$work/shm64m.h5" ] && [ $code = 0 ] || fail "64m is enough"
[ -z "$("$QTRAJ" status "$work/shm64k.h5" | grep 'there is not enough space')" ] && fail "64k is not enough"
finish
