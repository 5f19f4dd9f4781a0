# The second-order prediction of each cell: close to the true difference if the change is small, parts add up to the whole, the
# same with 1 and 3 ranks, no other value of a cell changes, computed once if it is requested later.
. "$(dirname "$0")/../tools/lib.sh"
need_python h5py

quickstart_sweep '1p;5p;9p' fixed_text <<YAML
name: second-order
results: results.h5
bits: [4, 8]
methods:
  - {method: rtn, group_size: 64}
  - {method: gptq, group_size: 64, bits: [5, 8]}
calibration: {text: text.txt, length: 128, samples: 4}
evaluation:
  - {name: text, text: text.txt, length: 128, skip: 4, samples: 5}
YAML
ask=(--set 'curvature={second_order: layers, critical: true, sequences: 2, length: 64, together: 3}')

launch 300 1 run "$work/sweep.yaml" --set "results=$work/later.h5" || fail "without: $(cat "$work/err")"
cp "$work/later.h5" "$work/without.h5"
launch 300 1 run "$work/sweep.yaml" --set "results=$work/later.h5" "${ask[@]}" || fail "asked for later: $(cat "$work/err")"
grep -q "predictions of 8 scored cells to do" "$work/err" || fail "asked for later: $(cat "$work/err")"
launch 300 1 run "$work/sweep.yaml" --set "results=$work/later.h5" "${ask[@]}" || fail "again: $(cat "$work/err")"
grep -q "nothing to do" "$work/err" || fail "asked for again: $(cat "$work/err")"
# Files that a killed run left on scratch are removed; those of live processes, other hosts or other users stay.
mkdir "$work/scratch"
sleep 0 & gone=$!
wait $gone
host=$(hostname | cut -c1-24) # as names of files have it
stays=("qtraj-weights.tmp.$host.$$.0123abcd" "qtraj-weights.tmp.x$host.$gone.0123abcd" "qtraj-weights.tmp.other.$gone.0123abcd" "mine")
touch "$work/scratch/qtraj-weights.tmp.$host.$gone.0123abcd"{,".tmp.$host.$gone.4567cdef"}
(cd "$work/scratch" && touch "${stays[@]}")
launch 300 3 run "$work/sweep.yaml" --set "results=$work/three.h5" --set "run.scratch=$work/scratch" "${ask[@]}" ||
    fail "three ranks: $(cat "$work/err")"
[ "$(ls "$work/scratch")" = "$(printf '%s\n' "${stays[@]}" | sort)" ] || fail "scratch: $(ls "$work/scratch")"
launch 300 1 run "$work/sweep.yaml" --set "results=$work/small.h5" "${ask[@]}" --set curvature.memory=0.001 --only bits=8 ||
    fail "little memory: $(cat "$work/err")"
launch 300 3 run "$work/sweep.yaml" --set "results=$work/alone.h5" --set 'curvature={critical: true, sequences: 2, length: 64}' ||
    fail "critical alone: $(cat "$work/err")"
ls "$TMPDIR"/qtraj-weights* >/dev/null 2>&1 && fail "quantized weights are left on scratch"

"$python" - "$work" <<'PYTHON' || fail "numbers"
import h5py, numpy, sys
work = sys.argv[1]
bad = 0


def check(ok, what):
    global bad
    if not ok:
        bad += 1
        print("wrong:", what)


without, cube, three = (h5py.File(f"{work}/{name}.h5") for name in ("without", "later", "three"))
for name in ("key", "loss", "loss_delta", "weight_distance"):
    check((without["cells"][name][:] == cube["cells"][name][:]).all(), f"{name} changed")
check(numpy.isnan(without["cells/second_order"][:]).all(), "predictions that nobody asked for")
cells, layers = cube["cells"], cube["layers"]
for name in ("first_order", "second_order", "true_difference", "curvature_along_delta"):
    check(numpy.isfinite(cells[name][:]).all(), f"{name} is missing")
    check((cells[name][:] == three["cells"][name][:]).all(), f"{name} depends on the ranks")
for name in ("first_order", "second_order", "diagonal"):
    check((layers[name][:] == three["layers"][name][:]).all(), f"layers: {name} depends on the ranks")
# The largest error of a prediction as a share of |first order| + |second order|; its cause is the third order. Measured over both
# checkpoints, two kernels of the BLAS (Haswell, Cooperlake) and, for GPTQ, four dampings that differ by 1 %:
# rtn 0.064 at 4 bits and 0.0002 at 8, whatever the kernel, since rounding changes none of its weights; GPTQ 0.0012 at 8 bits, 0.015
# at 6, 0.035 at 5, but 0.20 at 4 and 0.33 at 3: with so few calibration tokens its codes, and with them the third order, differ
# from kernel to kernel. So GPTQ is predicted at 5 and 8 bits, where any of its codes give a small third order.
ALLOWED = {8: 0.01, 5: 0.1, 4: 0.15}
for i in range(len(cells["row"])):
    first, second, true = (cells[k][i] for k in ("first_order", "second_order", "true_difference"))
    size = abs(first) + abs(second)
    error = abs(first + second - true) / size
    print(cells["bits"][i], cells["quantizer"][i], first, second, true, error)
    check(error < ALLOWED[cells["bits"][i]], f"row {i}: the prediction is off by {error}")
    check(abs(layers["first_order"][i].sum() - first) < 1e-12 * size + 1e-15, f"row {i}: parts of the first order")
    check(abs(layers["second_order"][i].sum() - second) < 1e-12 * size + 1e-15, f"row {i}: parts of the second order")
    along = 2 * second / cells["weight_distance"][i] ** 2
    check(abs(cells["curvature_along_delta"][i] / along - 1) < 1e-5, f"row {i}: curvature along the change")
    check((numpy.sign(layers["diagonal"][i]) != 0).all(), f"row {i}: diagonal")
    # For a quadratic loss it is 2 second / -first; if the first order is positive the loss rises at once.
    sharp = cells["critical_sharpness_delta"][i]
    check(sharp == three["cells/critical_sharpness_delta"][i], f"row {i}: critical sharpness depends on the ranks")
    check(sharp >= 0, f"row {i}: critical sharpness {sharp}")
    expected = -2 * second / first  # a step of 2 / expected, which must be short for the loss to be quadratic
    if cells["bits"][i] == 8 and first > 0:
        check(numpy.isinf(sharp), f"row {i}: critical sharpness {sharp}, uphill")
    if cells["bits"][i] == 8 and first < 0 and expected > 0.2:
        check(0.8 < sharp / expected < 1.25, f"row {i}: critical sharpness {sharp}, expected about {expected}")
steps = cube["critical_sharpness"][0]
check(numpy.isnan(steps[0]) and steps[1] >= 0, f"critical sharpness of the checkpoints: {steps}")
alone = h5py.File(f"{work}/alone.h5")
check((alone["cells/critical_sharpness_delta"][:] == cells["critical_sharpness_delta"][:]).all(), "critical alone")
check(numpy.isnan(alone["cells/second_order"][:]).all() and alone["critical_sharpness"][0, 1] == steps[1], "critical alone")
small = h5py.File(f"{work}/small.h5")["cells"]
eight = small["bits"][:] == 8
check((small["status"][:][eight] == 1).all(), "cells failed for want of the prediction's memory")
check(all(b"do not fit" in m for m in small["message"][:][eight]), "no word about memory")
sys.exit(bad != 0)
PYTHON
finish
