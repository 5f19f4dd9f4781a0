#!/usr/bin/env bash
# The report, with all its figures, on a small sweep of the quickstart's checkpoints with a branch and an average.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy matplotlib xarray h5netcdf scipy statsmodels jinja2
own_text "$work/text.txt"

launch 120 3 run "$SOURCE/configs/quickstart/quickstart.yaml" --set "results=$work/cube.h5" --set 'bits=[3, 4]' \
    --set "calibration.text=$work/text.txt" --set 'calibration.samples=8' \
    --set "evaluation[0].text=$work/text.txt" --set 'evaluation[0].samples=24' \
    --set 'curvature={sharpness: lanczos, products: 4, trace: 2, sequences: 1, second_order: total}' \
    --only 'checkpoint=*000[5789]00' || fail "exit code $?: $(cat "$work/err")"
launch 120 3 run "$SOURCE/configs/quickstart/quickstart.yaml" --set "results=$work/cube.h5" --set 'bits=[3, 4]' \
    --set "calibration.text=$work/text.txt" --set 'calibration.samples=8' \
    --set "evaluation[0].text=$work/text.txt" --set 'evaluation[0].samples=24' \
    --set 'curvature={sharpness: lanczos, products: 4, trace: 2, sequences: 1, second_order: total}' \
    --set 'surfaces=[{plane: quantization, columns: 3, rows: 3}, {plane: trajectory, columns: 3, rows: 2, samples: 2}]' \
    --only 'surface=*' || fail "surfaces: exit code $?: $(cat "$work/err")"
"$python" -W error::UserWarning "$SOURCE/analysis/report.py" "$work/cube.h5" --out "$work/figures" --draws 20 2>"$work/names" >"$work/page" ||
    fail "no report: $(cat "$work/names")"
[ "$(cat "$work/page")" = "$work/figures/report.html" ] || fail "the page: $(cat "$work/page")"
for name in relative_error validation_loss quantized_loss bit_widths methods averages agreement curvature prediction layer_errors movement movement_layers loss_surface \
    fit_token_law; do
    for ending in png pdf; do
        grep -qx "$work/figures/$name.$ending" "$work/names" || fail "$name.$ending is not listed"
        [ "$(wc -c <"$work/figures/$name.$ending")" -gt 5000 ] || fail "$name.$ending is empty"
    done
    grep -q "<figure id=\"$name\">" "$work/figures/report.html" || fail "$name is not on the page"
done

# what the page says is in the cube: one cell of the table, the counts, the commit, the tokens; a figure that is not there is named
"$python" - "$work/cube.h5" "$work/figures/report.html" <<'PY' || fail "the page does not say what the cube says"
import re, sys
import h5py, xarray
cube, page = xarray.open_dataset(sys.argv[1], engine="h5netcdf"), open(sys.argv[2], encoding="utf-8").read()
place = list(cube.checkpoint_name.sel(model="quickstart").values).index("step000700")
value, error = (100 * float(cube[name].sel(model="quickstart", bits=3, quantizer="gptq").isel(checkpoint=place, dataset=0))
                for name in ("loss_relative", "loss_relative_stderr"))
row = re.search(r'<th scope="row">700</th>(.*?)</tr>', page, re.S).group(1)
shown = [float(text) for text in re.findall(r"<td>([^<]*)</td>", row)[4].replace("−", "-").split(" ±\u00a0")]  # tokens, rate, CE, rtn, gptq
assert abs(shown[0] - value) < 0.5 * error and abs(shown[1] / error - 1) < 0.2, (shown, value, error)
with h5py.File(sys.argv[1]) as file:
    commit = file["provenance/git"].asstr()[()]
tokens = int(cube.baseline_tokens.max())
done = int((cube.status == 1).sum())
for text in (f"commit {commit}", f"{tokens:,} tokens scored in 24 sequences", f"{done} done, 0 failed", "average(step000500, step000700, step000900)",
             "<li>Spectra of the Hessian: the cube has no spectral densities",
             "quickstart, end of stable", "since step 500", "quickstart-cooldown, end of decay", str(cube.weights_digest.values[0, place])):
    assert text in page, text
PY
"$python" "$SOURCE/tests/tools/check_page.py" "$work/figures/report.html" >"$work/faults"
case $? in
0) ;;
77) cat "$work/faults" ;;
*) fail "the page: $(cat "$work/faults")" ;;
esac

export PYTHONPATH=$SOURCE/analysis
# what the rest of the stable run will cost, which status prints and its JSON holds
"$python" "$SOURCE/analysis/predict.py" published --ahead "$work/cube.h5" --end 1e8 --format csv >"$work/ahead" || fail "predict.py --ahead"
said=$(sed -n '2s/,.*//p' "$work/ahead")
"$QTRAJ" status "$work/cube.h5" >"$work/status" || fail "status"
grep -A 1 '^coming, nats a token at 1e+08 tokens, as published says, written 20' "$work/status" | tail -n 1 |
    grep -q "^  $said, .* at 3 bits: .* at step000900; outside of the law's points: parameters" || fail "$(cat "$work/ahead" "$work/status")"
"$QTRAJ" status "$work/cube.h5" --json | grep -q '"end": 100000000.0' || fail "status --json"

# as typed in a folder that has the cube and the package alone; each recipe by itself
mkdir -p "$work/empty/results"
ln -s "$work/cube.h5" "$work/empty/results/quickstart.h5"
ln -s "$SOURCE/analysis" "$work/empty/analysis"
(cd "$work/empty" && PYTHONPATH=analysis "$python" "$SOURCE/tests/tools/run_blocks.py" "$SOURCE/docs/cookbook.md" --each) >"$work/cookbook" 2>&1 ||
    fail "the cookbook: $(tail -n 20 "$work/cookbook")"
grep -qx '11 blocks' "$work/cookbook" || fail "the cookbook: $(tail -n 1 "$work/cookbook")"
"$python" "$SOURCE/tests/tools/run_blocks.py" <(sed -n '/^## In Python/,$p' "$SOURCE/docs/report.md") "$work/cube.h5" >"$work/package" 2>&1 ||
    fail "docs/report.md: $(tail -n 20 "$work/package")"

# the same analyses in h5py and xarray, and the order of the axes that Julia sees
"$python" "$SOURCE/tests/tools/run_blocks.py" "$SOURCE/docs/julia.md" "$work/cube.h5" >"$work/blocks" 2>&1 && grep -qx '9 blocks' "$work/blocks" ||
    fail "docs/julia.md: $(tail -n 20 "$work/blocks")"
"$python" "$SOURCE/tests/tools/check_order.py" "$work/cube.h5" >"$work/order" 2>&1 && grep -qE '^[0-9]{2} variables, 52 cells$' "$work/order" ||
    fail "the order of the axes: $(tail -n 5 "$work/order")"
if julia --project="$SOURCE/analysis/julia" -e 'using HDF5' >"$work/julia" 2>&1; then
    QTRAJ_CUBE=$work/cube.h5 julia --project="$SOURCE/analysis/julia" "$SOURCE/analysis/julia/test/runtests.jl" >"$work/julia" 2>&1 ||
        fail "analysis/julia: $(tail -n 20 "$work/julia")"
else
    echo "no julia with HDF5.jl here: analysis/julia was not run"
fi

# the data of the curves: a branch starts at the last stable checkpoint before it; padding and averages are skipped
"$python" - "$work/cube.h5" <<'PY' || fail "the trajectories of the cube are not as expected"
import sys
import numpy as np
import qtraj
cube = qtraj.open(sys.argv[1])
stable, branch = qtraj.trajectories(cube)
assert [line.average for line in qtraj.trajectories(cube, averages=True)] == ["", "stable", "decay", ""]
assert (stable.model, branch.model) == ("quickstart", "quickstart-cooldown")
assert branch.parent is stable and stable.parent is None
x, y = branch.curve(cube.learning_rate)
assert list(x) == [4096000, 4915200, 5734400, 6553600] and y[0] == 0.004, (x, y)
part = cube.loss_relative.sel(bits=3, quantizer="rtn").isel(dataset=0)
assert np.isfinite(stable.curve(part)[1]).sum() == 3, stable.curve(part)
assert np.isfinite(branch.curve(part)[1]).sum() == 3, branch.curve(part)
PY

echo "not a cube" >"$work/no.h5"
"$python" "$SOURCE/analysis/figures.py" "$work/no.h5" --out "$work/none" 2>"$work/err" && fail "a text file was drawn"
[ "$(wc -l <"$work/err")" = 1 ] || fail "a text file instead of a cube: $(cat "$work/err")"
# trajectories that have only steps, or only names; golden.figures_any_cube has all figures of such
for columns in checkpoint,step checkpoint; do
    printf '%s\nstep000500,1\nstep000700,2\n' "$columns" | cut -d , -f "1-$(tr ',' '\n' <<<"$columns" | wc -l)" >"$work/plain.csv"
    launch 120 3 run "$SOURCE/configs/quickstart/quickstart.yaml" --set "results=$work/$columns.h5" --set 'bits=[3]' \
        --set "calibration.text=$work/text.txt" --set 'methods=[{method: rtn}]' --set curvature=null \
        --set "evaluation[0].text=$work/text.txt" --set 'evaluation[0].samples=4' \
        --set "models[0].trajectory=$work/plain.csv" --set 'models[0].averages=null' --only model=quickstart ||
        fail "$columns: exit code $?: $(cat "$work/err")"
    "$python" "$SOURCE/analysis/figures.py" "$work/$columns.h5" --only relative_error --out "$work/$columns" >"$work/names" 2>"$work/err" ||
        fail "no figure of a table with $columns: $(cat "$work/err")"
    grep -q . "$work/err" && fail "the figure of $columns complains: $(cat "$work/err")"
    grep -q relative_error.png "$work/names" || fail "$columns: $(cat "$work/names")"
done
finish
