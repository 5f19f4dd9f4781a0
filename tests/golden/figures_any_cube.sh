#!/usr/bin/env bash
# Figures of cubes that the quickstart is not like: one model, two unrelated ones, six methods, two texts, 40 checkpoints,
# sharpness that has not converged, surfaces of all kinds. No text outside the canvas or over another, no method missing.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy matplotlib xarray h5netcdf

"$python" "$SOURCE/tests/tools/make_cubes.py" "$work/cubes" || fail "no cubes"
"$python" -W error::UserWarning "$SOURCE/tests/tools/check_figures.py" "$SOURCE/analysis" "$work/figures" "$work"/cubes/*.h5 >"$work/found" ||
    fail "$(cat "$work/found")"
tail -n 1 "$work/found"
for name in one/relative_error two_models/agreement six_methods/validation_loss many/spectral_density many/layer_errors \
    unconverged/curvature surfaces/loss_surface two_datasets/prediction averages/averages averages/bit_widths six_methods/quantized_loss; do
    [ -s "$work/figures/$name.png" ] || fail "$name was not drawn"
done

# a model that is chosen, one that is not there, and what Spearman's correlation is
figures() { "$python" "$SOURCE/analysis/figures.py" "$@" --out "$work/chosen" >"$work/names" 2>"$work/err"; }
figures "$work/cubes/two_models.h5" --model 'OLMo2*' --only relative_error || fail "--model: $(cat "$work/err")"
figures "$work/cubes/two_models.h5" --model nobody && fail "a model that is not there was drawn"
grep -q 'no model is called nobody; there are SmolLM3-3B, cooldown of it, OLMo2-7B, SmolLM3-3B-soup-ingredient-2' "$work/err" || fail "$(cat "$work/err")"
"$python" "$SOURCE/analysis/figures.py" "$work/cubes/two_models.h5" --out "$work/err/figures" >"$work/names" 2>"$work/refused" &&
    fail "a folder inside a file was made"
[ "$(cat "$work/refused")" = "--out $work/err/figures: Not a directory" ] || fail "$(cat "$work/refused")"
PYTHONPATH=$SOURCE/analysis "$python" - <<'PY' || fail "rank correlation"
import numpy as np
from curvature import spearman
x = np.array([86, 97, 99, 100, 101, 103, 106, 110, 112, 113.0])
y = np.array([2, 20, 28, 27, 50, 29, 7, 17, 6, 12.0])
rho, interval = spearman(x, y)  # the example of textbooks: 1 - 6 * 194 / (10 * 99)
assert abs(rho - (1 - 6 * 194 / 990)) < 1e-12, rho
assert interval[0] < rho < interval[1] and interval[0] > -1, interval
same = spearman(x, x)
assert abs(same[0] - 1) < 1e-12 and same[1] is None, same
assert spearman(x, 0 * x) == (None, None)
tied = spearman(np.array([1, 2, 2, 3.0]), np.array([1, 3, 3, 2.0]))[0]
assert abs(tied - 1 / 3) < 1e-12, tied
PY
PYTHONPATH=$SOURCE/analysis "$python" - "$work/cubes/one.h5" <<'PY' || fail "error bars and points of a cube with replicates"
import sys
import matplotlib
import numpy as np
matplotlib.use("Agg")
import points, relative_error
from cube import open_cube
cube = open_cube(sys.argv[1])
stderr, std = (cube[f"loss_relative{end}"].sel(bits=3, quantizer="gptq").values.ravel() for end in ("_stderr", "_replicate_std"))
figure = relative_error.draw(cube, [3, 4])
bars = [{round(float(np.ptp(s[:, 1])) / 200, 9) for c in axes.collections for s in c.get_segments()} for axes in figure.axes]
assert set(np.round(stderr, 9)) <= bars[0] and set(np.round(np.hypot(stderr, std), 9)) <= bars[0], bars[0]
frame, _ = points.of_cube(sys.argv[1])
gptq = frame[(frame.quantizer == "gptq") & (frame.bits == 3)]
assert np.allclose(gptq.delta_stderr, gptq.delta * np.hypot(0.05, 0.3)), gptq
rtn = frame[frame.quantizer == "rtn"]
assert np.allclose(rtn.delta_stderr, 0.05 * rtn.delta), rtn
PY
finish
