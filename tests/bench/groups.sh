#!/usr/bin/env bash
# One visit of a checkpoint of Pythia-160M's shape with groups of 1 and more ranks, one thread each: wall time of the whole
# visit, and the difference of the losses.
#   QTRAJ=build/release/qtraj tests/bench/groups.sh [ranks ...]      default 1 2
# SEQUENCES calibration sequences of 1024 tokens (16), half as many for evaluation. PYTHON needs numpy and h5py. SET=KEY=VALUE
# overrides a key of the sweep.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
QTRAJ=$(realpath "${QTRAJ:-$here/build/release/qtraj}")
python=${PYTHON:-python3} sequences=${SEQUENCES:-16}
[ $# -gt 0 ] || set -- 1 2
work=$(realpath "$(mktemp -d "${FOLDER:-/tmp}/groups.XXXXXX")")
trap 'rm -rf "$work"' EXIT
. "$here/jobs/lib.sh"
mpi_environment
export OMP_NUM_THREADS=1 OMPI_MCA_mpi_yield_when_idle=1

"$python" "$here/tests/bench/make_checkpoint.py" "$QTRAJ" "$work/model/one" --family gpt_neox --hidden 768 --layers 12 --heads 12 \
    --intermediate 3072 --vocab 50304 >/dev/null
"$python" "$here/tests/bench/make_ids.py" "$work/ids.safetensors" 50304 "calibration=$sequences,1024" \
    "evaluation=$((sequences > 1 ? sequences / 2 : 1)),1024"
printf 'checkpoint,step\none,1\n' >"$work/trajectory.csv"
cat >"$work/sweep.yaml" <<END
name: groups
results: results.h5
models: [{name: random, trajectory: trajectory.csv, path: "$work/model/{checkpoint}"}]
bits: [4]
methods: [{method: gptq, group_size: 128}]
calibration: {ids: "ids.safetensors:calibration"}
evaluation: [{name: random, ids: "ids.safetensors:evaluation"}]
END

for ranks in "$@"; do
    # Rank 0 only sleeps.
    QTRAJ_TRACE=visit mpirun -n $((ranks + 1)) "$QTRAJ" run "$work/sweep.yaml" --set "results=$ranks.h5" \
        --set "run.ranks_per_group=$ranks" ${SET:+--set "$SET"} 2>&1 | grep 'block 11' | tail -1
done
"$python" - "$work" "$@" <<'END'
import sys
import h5py
work, ranks = sys.argv[1], sys.argv[2:]
first = None
for n in ranks:
    cube = h5py.File(f"{work}/{n}.h5")
    seconds, loss = cube["checkpoints/checkpoint_seconds"][()].ravel()[0], cube["cells/loss"][()].ravel()[0]
    first = first or (seconds, loss)
    print(f"{n} ranks: {seconds:.2f} s, {first[0] / seconds:.2f} times the first; loss {loss:.8f}, relative difference {abs(loss / first[1] - 1):.1e}")
END
