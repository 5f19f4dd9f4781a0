#!/usr/bin/env bash
# Curvature of one checkpoint with groups of 1 and more ranks, one thread each, vectors distributed: seconds of gradient
# and products, measured and planned memory per rank, difference of the sharpness.
#   QTRAJ=build/release/qtraj tests/bench/groups_curvature.sh [ranks ...]      default 1 2
# SEQUENCES of 512 tokens (4), PRODUCTS of Lanczos (3). PYTHON needs numpy and h5py.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
QTRAJ=$(realpath "${QTRAJ:-$here/build/release/qtraj}")
python=${PYTHON:-python3} sequences=${SEQUENCES:-4} products=${PRODUCTS:-3}
[ $# -gt 0 ] || set -- 1 2
work=$(realpath "$(mktemp -d "${FOLDER:-/tmp}/groups.XXXXXX")")
trap 'rm -rf "$work"' EXIT
. "$here/jobs/lib.sh"
mpi_environment
export OMP_NUM_THREADS=1 OMPI_MCA_mpi_yield_when_idle=1

"$python" "$here/tests/bench/make_checkpoint.py" "$QTRAJ" "$work/model/one" --family llama --hidden 768 --layers 6 --heads 12 \
    --intermediate 2048 --vocab 8192 >/dev/null
"$python" "$here/tests/bench/make_ids.py" "$work/ids.safetensors" 8192 "ids=$sequences,512"
printf 'checkpoint,step\none,1\n' >"$work/trajectory.csv"
cat >"$work/sweep.yaml" <<END
name: groups
results: results.h5
models: [{name: random, trajectory: trajectory.csv, path: "$work/model/{checkpoint}"}]
bits: [4]
methods: [{method: rtn, group_size: 128}]
evaluation: [{name: random, ids: "ids.safetensors:ids", samples: 1}]
curvature: {sharpness: lanczos, products: $products, tolerance: 1e-9, data: {ids: "ids.safetensors:ids"}, sequences: $sequences}
END

for ranks in "$@"; do
    # Rank 0 only sleeps.
    mpirun -n $((ranks + 1)) "$QTRAJ" run "$work/sweep.yaml" --set "results=$ranks.h5" --set "run.ranks_per_group=$ranks" 2>/dev/null
done
"$python" - "$work" "$@" <<'END'
import sys
import h5py
work, ranks = sys.argv[1], sys.argv[2:]
first = None
for n in ranks:
    cube = h5py.File(f"{work}/{n}.h5")
    seconds, peak, planned, sharpness = (float(cube[name][()].ravel()[0]) for name in
                                         ("curvature_seconds", "curvature_peak_memory", "curvature_planned_memory", "sharpness"))
    first = first or (seconds, sharpness)
    print(f"{n} ranks: {seconds:.2f} s, {first[0] / seconds:.2f} times the first; {peak / 2**20:.0f} MiB a rank, planned {planned / 2**20:.0f}; "
          f"sharpness {sharpness:.8g}, relative difference {abs(sharpness / first[1] - 1):.1e}")
END
