#!/usr/bin/env bash
# Quantizes blocks of OLMo2-32B's shape to 4 bits with a group of two ranks. Needs about 14 GB of memory, 8 GB of disk and, on
# two cores, about ten minutes. Prints the time of each phase, ScaLAPACK's work, the planned and the measured peak memory;
# then does the same with a kill -9 in the middle and a restart.
#   QTRAJ=build/release/qtraj tests/bench/block32b.sh [hidden [intermediate [layers [heads [kv heads]]]]]
# Smaller shapes are also compared with one rank and LAPACK: 1280 6912 2 10 2 takes a minute.
# Set PYTHON to an interpreter with numpy and h5py; FOLDER to the folder for files (removed at the end); KILL=0 skips the second part.
set -eu
hidden=${1:-5120} intermediate=${2:-27648} layers=${3:-2} heads=${4:-40} kv=${5:-8}
here=$(cd "$(dirname "$0")/../.." && pwd)
QTRAJ=$(realpath "${QTRAJ:-$here/build/release/qtraj}")
python=${PYTHON:-python3}
work=$(realpath "$(mktemp -d "${FOLDER:-/tmp}/block32b.XXXXXX")")
trap 'rm -rf "$work"' EXIT
. "$here/jobs/lib.sh"
mpi_environment
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMPI_MCA_mpi_yield_when_idle=1

"$python" "$here/tests/bench/make_checkpoint.py" "$QTRAJ" "$work/model/one" --family olmo2 --hidden "$hidden" --layers "$layers" \
    --heads "$heads" --kv-heads "$kv" --intermediate "$intermediate" --vocab 1024 >/dev/null
"$python" "$here/tests/bench/make_ids.py" "$work/ids.safetensors" 1024 calibration=2,1024 evaluation=2,512
printf 'checkpoint,step\none,1\n' >"$work/trajectory.csv"
cat >"$work/sweep.yaml" <<END
name: block32b
results: group.h5
models: [{name: random, trajectory: trajectory.csv, path: "$work/model/{checkpoint}"}]
bits: [4]
methods: [{method: gptq, group_size: 128}]
calibration: {ids: "ids.safetensors:calibration"}
evaluation: [{name: random, ids: "ids.safetensors:evaluation"}]
run: {ranks_per_group: 2, memory_per_rank: ${MEMORY:-7G}}
END

# Maximum VmHWM of each process of this run, their sum, and the maximum sum of proportional sizes (shared pages count once).
watch_memory() {
    local most=0 pids sum
    while [ -d "$work" ] && [ ! -e "$work/stop" ]; do
        pids=$(pgrep -f "^$QTRAJ run $work/sweep.yaml" || true)
        sum=0
        for pid in $pids; do
            kb=$(awk '/^Pss:/ {print $2}' "/proc/$pid/smaps_rollup" 2>/dev/null || true)
            sum=$((sum + ${kb:-0}))
            grep VmHWM "/proc/$pid/status" 2>/dev/null | awk -v p="$pid" '{print p, $2}' >>"$work/hwm" || true
        done
        [ "$sum" -le "$most" ] || most=$sum
        echo "$most" >"$work/pss"
        sleep 1
    done
}

run() { # ranks, further settings
    local ranks=$1
    shift
    QTRAJ_TRACE=visit,linalg,memory mpirun -n "$ranks" "$QTRAJ" run "$work/sweep.yaml" "$@" >"$work/log" 2>&1
}
report() { # ranks, further settings
    run "$@" || { cat "$work/log"; exit 1; }
    grep -E 'trace (memory|linalg|visit)|cells' "$work/log"
}

echo "shape: hidden $hidden, intermediate $intermediate, $layers layers, $heads heads, $kv key/value heads; 2 ranks, $OMP_NUM_THREADS threads each"
watch_memory &
watcher=$!
start=$(date +%s)
report 3
echo "wall: $(($(date +%s) - start)) s with reading and head"
touch "$work/stop"
wait $watcher
awk '{if ($2 > most[$1]) most[$1] = $2} END {for (p in most) {n++; sum += most[p]; printf "peak of a process (VmHWM): %.2f GB\n", most[p] / 1e6}
    printf "their sum, shared pages counted in each: %.2f GB\n", sum / 1e6}' "$work/hwm"
awk '{printf "all processes, shared pages counted once: %.2f GB\n", $1 / 1e6}' "$work/pss"
"$QTRAJ" show "$work/group.h5"
"$python" - "$work/group.h5" <<'END'
import sys
import h5py
cells = h5py.File(sys.argv[1])["cells"]
print("seconds:", ", ".join(f"{name} {cells[name if name == 'seconds' else 'seconds_' + name][()].ravel()[0]:.1f}"
                           for name in ("seconds", "read", "forward", "hessian", "factor", "sweep", "head")))
END

if [ "$intermediate" -le 14000 ]; then
    report 1 --set results=alone.h5 --set run.ranks_per_group=1
    "$QTRAJ" show "$work/alone.h5"
    "$python" - "$work" <<'END'
import sys
import h5py
a, b = (h5py.File(f"{sys.argv[1]}/{name}.h5")["cells/loss"][:].ravel() for name in ("alone", "group"))
print("loss alone", a, "in a group", b, "relative difference", abs(b / a - 1).max())
assert abs(b / a - 1).max() <= 1e-4
END
fi

[ "${KILL:-1}" = 1 ] || exit 0
echo "once more, with kill -9 of a rank in the middle, and a restart"
cp "$work/group.h5" "$work/whole.h5"
rm "$work"/group.h5 "$work"/group.journal
run 3 &
launcher=$!
sleep "${KILL_AFTER:-60}"
victim=$(pgrep -f "^$QTRAJ run $work/sweep.yaml" | tail -1)
kill -9 "$victim"
wait $launcher && { echo "the run outlived its rank?"; exit 1; }
report 3 | grep cells
"$python" "$here/tests/tools/compare_cubes.py" "$work/whole.h5" "$work/group.h5"
