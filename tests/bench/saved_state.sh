#!/usr/bin/env bash
# Saved states of a visit of the 160M shape: 12 blocks, two variants. First the share of the time that saving takes with default
# settings (below 1 %). Then the visit is killed at each block boundary, and between the variants of each block: the cube is
# that of the undisturbed visit bit for bit, and no kill repeats a block.
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

share() {
    sweep "$sequences"
    "$build/qtraj" run "$work/sweep.yaml" --set "results=$work/share.h5" 2>"$work/log"
    grep 'trace saved' "$work/log" || echo "no state was saved"
    tail -n 1 "$work/log"
}

kills() {
    local count kills
    sweep 2
    "$build/qtraj" run "$work/sweep.yaml" --set "results=$work/whole.h5" 2>"$work/log"
    for count in 1 2; do
        kills=0
        : >"$work/log"
        # Loading and one block, then the count-th line of the next one.
        until KILL_TEXT='trace visit: block' KILL_COUNT=$((variants + count)) QTRAJ_SAVE=always LD_PRELOAD="$build/libkill_at_line.so" \
            "$build/qtraj" run "$work/sweep.yaml" --set "results=$work/killed$count.h5" 2>>"$work/log"; do
            kills=$((kills + 1))
            [ $kills -lt 100 ]
        done
        echo "killed $kills times: $(grep -c 'trace visit: block' "$work/log") blocks of variants computed, $((blocks * variants)) undisturbed"
        "$python" "$here/tests/tools/compare_cubes.py" "$work/whole.h5" "$work/killed$count.h5"
    done
}

for part in "$@"; do $part; done
