# run.products: bf16x3 gives the numbers of f32 to their last digits, bf16x2 to 2e-6, and bf16 others, with run.rounding yet others. Each is
# the same bit for bit for any number of threads and of ranks (with `reproducible`); keys and fingerprints say what was computed; no rank
# takes more memory than planned.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy

quickstart_sweep '1p;4p' <<'YAML'
name: products
results: results.h5
bits: [3]
methods:
  - {method: rtn, group_size: 64}
  - {method: gptq, group_size: 64, scale_dtype: f16-packed}
  - {method: awq, group_size: 64}
calibration: {text: text.txt, length: 64, samples: 4}
evaluation:
  - {name: docs, text: text.txt, length: 100, skip: 12, samples: 7}
run: {reproducible: true}
YAML
fixed_text "$work/text.txt"

run() { # name, products, ranks of the group, threads, options
    launch 300 $(($3 + ($3 > 1))) run "$work/sweep.yaml" --set "results=$1.h5" --set "run.products=$2" \
        --set "run.ranks_per_group=$3" --set "run.threads=$4" "${@:5}" || fail "$1: exit code $?: $(cat "$work/err")"
}

run f32 f32 1 1
for kind in bf16x3 bf16x2 bf16; do
    run $kind $kind 1 1
    run $kind-divided $kind 2 3
    compare $kind $kind-divided
done
run rounded bf16 1 1 --set run.rounding=bf16
run rounded-divided bf16 2 3 --set run.rounding=bf16
compare rounded rounded-divided

"$python" - "$work" <<'PY' || fail "keys, fingerprints, losses or memory"
import sys
import h5py
import numpy as np

def read(name):
    with h5py.File(f"{sys.argv[1]}/{name}.h5") as f:
        loss = f["checkpoint_loss"] if "checkpoint_loss" in f else f["baseline_loss"]
        peak, planned = (f[f"checkpoint_{k}_memory"][:].max() for k in ("peak", "planned"))
        rtn = list(f["quantizer"].asstr()[:]).index("rtn")
        return (sorted(f["cells/key"].asstr()[:].ravel()), str(f["cells/fingerprint"].asstr()[:].ravel()[0]),
                loss[:].astype(float), peak / planned, f["loss"][:, :, :, rtn].astype(float))

plain, exact, two, coarse, rounded = all_runs = [read(name) for name in ("f32", "bf16x3", "bf16x2", "bf16", "rounded")]
assert plain[0] == exact[0] and len({key for one in all_runs for key in one[0]}) == 4 * len(plain[0]), "keys"
assert "products f32, " in plain[1] and "products bf16x3, " in exact[1] and "products bf16, " in coarse[1], (plain[1], exact[1], coarse[1])
assert "products bf16x2, " in two[1], two[1]
for which in (2, 4):  # in full precision and of rtn; GPTQ's codes flip at ties, in bf16x3 as with another BLAS
    off = [np.nanmax(np.abs(other[which] / plain[which] - 1)) for other in (exact, two, coarse, rounded)]
    print("losses, relative to f32: bf16x3, bf16x2, bf16, and rounded", *off)
    assert off[0] < 1e-6 and off[0] < off[1] < 2e-6 and 1e-5 < min(off[2:]) and max(off[2:]) < 1e-2 and off[2] != off[3], off
over = [one[3] for one in all_runs]
print("measured over planned memory", *over)
assert max(over) <= 1.02
PY
finish
