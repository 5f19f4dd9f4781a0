#!/usr/bin/env bash
# Saved states of a visit of the 160M shape: 12 blocks, two variants. First the share of the time that saving takes with default
# settings (below 1 %). Then the visit is killed at each block boundary, between the variants of each block, and at the end of
# each block before its state is saved: the cube is that of the undisturbed visit bit for bit, and a kill repeats nothing, a
# part of a block, and one block.
#   BUILD=build/dev tests/bench/saved_state.sh [share] [kills]      default both
# BUILD has qtraj and libkill_at_line.so. SEQUENCES of 512 tokens, for calibration and for evaluation, in the first part (16).
# PYTHON needs numpy and h5py.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${BUILD:-$here/build/dev}")
python=${PYTHON:-python3} sequences=${SEQUENCES:-16} blocks=12 variants=2
[ $# -gt 0 ] || set -- share kills
work=$(realpath "$(mktemp -d "${FOLDER:-/tmp}/saved.XXXXXX")")
trap 'rm -rf "$work"' EXIT
. "$here/jobs/lib.sh"
mpi_environment
export QTRAJ_TRACE=saved,visit

"$python" "$here/tests/bench/make_checkpoint.py" "$build/qtraj" "$work/model/one" --family olmo2 --hidden 768 --layers $blocks --heads 12 \
    --intermediate 3072 --vocab 50304 >/dev/null
printf 'checkpoint,step\none,1\n' >"$work/trajectory.csv"
# sweep SEQUENCES: ids, of which the first half calibrate
sweep() {
    "$python" "$here/tests/bench/make_ids.py" "$work/ids.safetensors" 50304 "calibration=$1,512" "evaluation=$1,512"
    cat >"$work/sweep.yaml" <<END
name: saved
results: results.h5
models: [{name: random, trajectory: trajectory.csv, path: "$work/model/{checkpoint}"}]
bits: [3]
methods: [{method: gptq, group_size: 128}, {method: rtn, group_size: 128}]
calibration: {ids: "ids.safetensors:calibration"}
evaluation: [{name: random, ids: "ids.safetensors:evaluation"}]
END
}

# go RESULTS: a run of the sweep; its log is added to $work/log
go() { "$build/qtraj" run "$work/sweep.yaml" --set "results=$work/$1.h5" 2>>"$work/log"; }

share() {
    sweep "$sequences"
    : >"$work/log"
    go share
    grep 'trace saved' "$work/log" || echo "no state was saved"
    tail -n 1 "$work/log"
    awk '/states; saving took/ { n++; if ($(NF - 4) > 0.01 * $(NF - 1)) exit 1 } END { if (!n) exit 1 }' "$work/log" ||
        { echo "more than 1 % of the time" && exit 1; }
}

# in_turns NAME COUNT TEXT REPEATED: runs that save everywhere and are killed before their COUNT-th line with TEXT, until one is
# not. Each kill may repeat the work of REPEATED blocks of variants, whose lines are not all written.
in_turns() {
    local kills=0 lines most
    : >"$work/log"
    until KILL_TEXT=$3 KILL_COUNT=$2 QTRAJ_SAVE=always LD_PRELOAD="$build/libkill_at_line.so" go "$1"; do
        kills=$((kills + 1))
        [ $kills -lt 100 ]
    done
    lines=$(grep -c 'trace visit: block' "$work/log")
    most=$((blocks * variants + kills * $4))
    # Killed before the line of a block's first or last variant: that one was computed, but has no line.
    [ "$3" = 'trace saved' ] || lines=$((lines + kills))
    echo "$1: killed $kills times; $lines blocks of variants computed, at most $most, $((blocks * variants)) undisturbed"
    [ $kills -ge $((blocks - 1)) ]
    [ "$lines" -le $most ]
    [ ! -e "$work/$1.h5.checkpoints" ]
    "$python" "$here/tests/tools/compare_cubes.py" "$work/whole.h5" "$work/$1.h5"
}

kills() {
    sweep 2
    go whole
    in_turns boundary 1 'trace saved' 0
    in_turns between $((variants + 1)) 'trace visit: block' 1
    in_turns end $((2 * variants)) 'trace visit: block' $variants
    echo "the cubes are equal bit for bit"
}

for part in "$@"; do $part; done
