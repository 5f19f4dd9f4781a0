#!/usr/bin/env bash
# Curvature, second-order predictions and critical sharpness in groups of 1, 3 and 5 ranks, more than the model has layers: the
# same within 1e-4 (f32 sums in another order), bit for bit for the same group size; warm starts; vectors that do not fit on
# one rank; a failure on one rank fails all.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy

quickstart_sweep '1p;4p;9p' fixed_text <<YAML
name: groups-curvature
results: results.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation:
  - {name: text, text: text.txt, length: 128, skip: 4, samples: 5}
curvature: {sharpness: lanczos, products: 6, tolerance: 1e-6, trace: 3, together: 2, density: 3, second_order: layers, critical: true,
  sequences: 4, length: 64}
YAML
only=(--only checkpoint=step001200)
run() { # NAME RANKS SETTINGS: the last checkpoint by one group of so many
    local name=$1 ranks=$2
    shift 2
    launch 300 $((ranks + (ranks > 1))) run "$work/sweep.yaml" --set "results=$work/$name.h5" --set "run.ranks_per_group=$ranks" "${only[@]}" "$@"
}
for ranks in 1 3 5; do
    run "group$ranks" $ranks || fail "a group of $ranks: $(cat "$work/err")"
done
run again 3 || fail "the group again: $(cat "$work/err")"
compare group3 again

"$python" - "$work" <<'PYTHON' || fail "numbers"
import h5py, numpy, sys
work = sys.argv[1]
bad = 0
alone = h5py.File(f"{work}/group1.h5")


def check(what, found, expected, error, scale=None):
    global bad
    off = numpy.abs(found - expected) > error * (numpy.abs(expected) if scale is None else scale)
    if off.any() or (numpy.isnan(found) != numpy.isnan(expected)).any():
        bad += 1
        print("wrong:", what, found, expected)


for ranks in (3, 5):
    cube = h5py.File(f"{work}/group{ranks}.h5")
    for name in ("curvature_status", "curvature_parameters", "curvature_tokens", "curvature_products", "trace_probes"):
        check(f"{ranks} ranks: {name}", cube[name][:], alone[name][:], 0)
    for name in ("sharpness", "trace", "gradient_norm", "curvature_loss"):
        check(f"{ranks} ranks: {name}", cube[name][:], alone[name][:], 1e-4)
    check(f"{ranks} ranks: smallest", cube["smallest_eigenvalue"][:], alone["smallest_eigenvalue"][:], 1e-4, alone["sharpness"][:])
    tensors = (cube["curvature_tensors"], alone["curvature_tensors"])
    check(f"{ranks} ranks: norms of tensors", *(t["gradient_norm"][:] for t in tensors), 1e-4)
    check(f"{ranks} ranks: traces of tensors", *(t["trace"][:] for t in tensors), 1e-4, abs(alone["trace"][:]).max())
    check(f"{ranks} ranks: density", *(c["spectral_density/node"][:] for c in (cube, alone)), 1e-4, alone["sharpness"][:].max())
    size = abs(alone["cells/first_order"][:]) + abs(alone["cells/second_order"][:])
    for name in ("first_order", "second_order", "true_difference"):
        check(f"{ranks} ranks: {name}", cube["cells"][name][:], alone["cells"][name][:], 1e-3 if name[0] == "t" else 1e-4, size)
    for name in ("first_order", "second_order", "diagonal"):
        check(f"{ranks} ranks: {name} of layers", cube["layers"][name][:], alone["layers"][name][:], 1e-4, size[:, None])
    for name in ("critical_sharpness", "cells/critical_sharpness_delta"):
        sharp = [numpy.nan_to_num(c[name][:], nan=-1, posinf=-2) for c in (cube, alone)]
        check(f"{ranks} ranks: {name}", *sharp, 0.07)
sys.exit(bad != 0)
PYTHON

# With `reproducible`, no bit of a cell, its second order included, depends on the ranks.
run exact1 1 --set run.reproducible=true || fail "reproducible: $(cat "$work/err")"
run exact3 3 --set run.reproducible=true || fail "reproducible in a group: $(cat "$work/err")"
"$python" - "$work/exact1.h5" "$work/exact3.h5" <<'PYTHON' || fail "reproducible second orders differ"
import h5py, sys
a, b = map(h5py.File, sys.argv[1:])
names = [f"cells/{n}" for n in ("loss", "first_order", "second_order", "true_difference", "critical_sharpness_delta")]
names += [f"layers/{n}" for n in ("first_order", "second_order", "diagonal")]
bad = [n for n in names if a[n][()].tobytes() != b[n][()].tobytes()]
sys.exit(f"differ: {bad}" if bad else 0)
PYTHON
# This does not apply to curvature: its fingerprint, and with it the file name of a vector, contains the number of ranks.
"$python" - "$work" <<'PYTHON' || fail "fingerprints of reproducible curvature"
import h5py, sys
bad = 0
for name, cells, curvature in (("exact3", "ranks any;", "ranks 3"), ("exact1", "ranks any;", "ranks 1;"), ("group3", "ranks 3", "ranks 3")):
    cube = h5py.File(f"{sys.argv[1]}/{name}.h5")
    for group, expected in (("cells", cells), ("curvature", curvature)):
        found = {x.decode() for x in cube[f"{group}/fingerprint"][()]} - {""}  # of the checkpoint that was left out
        bad += len(found) != 1 or expected not in found.pop()
same = [set(h5py.File(f"{sys.argv[1]}/{n}.h5")["curvature/fingerprint"][()]) for n in ("exact3", "group3")]
sys.exit(bad or same[0] != same[1])
PYTHON

only_bits

# Vectors that do not fit on one rank: a group distributes them.
little=(--set 'curvature={sharpness: lanczos, products: 6, sequences: 4, length: 64}')
parameters=$("$python" -c 'import h5py, sys; print(int(h5py.File(sys.argv[1])["curvature_parameters"][()].max()))' "$work/group1.h5")
little+=(--set "curvature.memory=$("$python" -c "print($parameters * 4 * 2.5 / 2**30)")")
run little1 1 "${little[@]}" && fail "four vectors fit into two"
"$QTRAJ" status "$work/little1.h5" | grep -q "Lanczos needs 4 vectors" || fail "no message about vectors: $("$QTRAJ" status "$work/little1.h5")"
run little3 3 "${little[@]}" || fail "vectors in parts: $(cat "$work/err")"

# A warm start's vectors are distributed too: the same bits if they are recomputed, and no files are left.
only=()
warm=(--set 'curvature={sharpness: lanczos, products: 6, sequences: 4, length: 64, warm_start: true}')
run warm 3 "${warm[@]}" || fail "warm start: $(cat "$work/err")"
cp "$work/warm.h5" "$work/first.h5"
run warm 3 "${warm[@]}" --redo --only 'checkpoint=step001200' || fail "warm start again: $(cat "$work/err")"
compare first warm
[ -e "$work/warm.h5.vectors" ] && fail "vectors are left"
ls "$TMPDIR"/qtraj-weights* >/dev/null 2>&1 && fail "quantized weights are left on scratch"
# One rank alone cannot open the checkpoint before: critical sharpness fails, the rest is done, and nobody waits.
FAULT_CALLS=open FAULT_DO=EIO FAULT_AT=1 FAULT_STAYS=1 FAULT_RANK=2 FAULT_FOLDER=$quickstart/trajectory/step000500 FAULT_REPORT=$work/fault \
    timeout -k 5 300 mpirun -n 3 -x LD_PRELOAD="$FAULT_LIBRARY" "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/one.h5" \
    --set run.ranks_per_group=2 --set 'bits=[4]' --set 'curvature={sharpness: power, products: 1, critical: true, sequences: 2, length: 64}' \
    --only checkpoint=step001200 >"$work/out" 2>"$work/err" </dev/null || fail "one rank without the checkpoint before: $(cat "$work/err")"
[ -s "$work/fault" ] && grep -q '"message":"critical: .*Input/output error' "$work/one.journal" || fail "critical sharpness did not fail: $(cat "$work/err")"

finish
