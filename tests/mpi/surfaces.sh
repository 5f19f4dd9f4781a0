# Loss surfaces: the three points that span a plane equal, bit for bit, `qtraj eval` of their checkpoints; the same surfaces
# with 1 and 3 ranks; what the plan's total counts; an interrupted run resumes, and a finer grid reuses the points of a coarser one.
. "$(dirname "$0")/../tools/lib.sh"
need_python h5py

tokenizer=$quickstart/trajectory/tokenizer.json
quickstart_sweep '1p;2p;4p;8p;9p' <<'YAML'
name: surfaces
results: results.h5
bits: [3]
methods:
  - {method: gptq, group_size: 64}
calibration: {text: text.txt, length: 256, samples: 8}
evaluation:
  - {name: text, text: text.txt, length: 200, skip: 12, samples: 7}
surfaces:
  - {name: quantized, plane: quantization, columns: 3, rows: 2}
  - {name: run, plane: trajectory, columns: 3, rows: 3}
  - {name: random, plane: random, columns: 3, rows: 3, radius: 0.5}
YAML

"$QTRAJ" plan "$work/sweep.yaml" --brief >"$work/out" 2>&1 || fail "plan: $(cat "$work/out")"
grep -q '^all but the points of surfaces: .* left: ' "$work/out" || fail "plan does not say what its total leaves out: $(cat "$work/out")"
launch 300 1 run "$work/sweep.yaml" --set "results=$work/one.h5" || fail "one rank: $(cat "$work/err")"
launch 300 3 run "$work/sweep.yaml" --set "results=$work/three.h5" || fail "three ranks: $(cat "$work/err")"
compare one three
ls "$TMPDIR"/qtraj-weights* >/dev/null 2>&1 && fail "quantized weights are left on scratch"

# The three checkpoints as folders, measured with qtraj eval.
loss() {
    "$QTRAJ" eval "$1" --text "$work/text.txt" --length 200 --skip 12 --samples 7 --tokenizer "$tokenizer" --json 2>/dev/null |
        "$python" -c 'import json, sys; print(repr(json.load(sys.stdin)["loss"]))'
}
"$QTRAJ" quantize "$quickstart/trajectory/step001200" --method gptq --bits 3 --group-size 64 --tokenizer "$tokenizer" \
    --calibration-text "$work/text.txt" --calibration-length 256 --calibration-samples 8 \
    --weights "$work/weights.safetensors" >/dev/null 2>"$work/err" || fail "quantize: $(cat "$work/err")"
"$python" "$SOURCE/tests/tools/overlay_checkpoint.py" "$quickstart/trajectory/step001200" "$work/weights.safetensors" \
    "$work/quantized"
{
    for name in step001200 step001100; do echo "$name $(loss "$quickstart/trajectory/$name")"; done
    echo "quantized $(loss "$work/quantized")"
} >"$work/want"
"$python" - "$work" <<'PYTHON' || fail "points differ from the checkpoints' losses"
import h5py, sys
work, bad = sys.argv[1], 0
cube = h5py.File(f"{work}/three.h5")
points = {k: (c.asstr()[:] if h5py.check_string_dtype(c.dtype) else c[:]) for k, c in cube["surfaces"].items()}
for line in open(f"{work}/want"):
    name, want = line.split()
    at = [i for i in range(len(points["point"])) if points["surface"][i] == "quantized" and points["point"][i] == name]
    got = points["loss"][at[0]]
    print(name, got, want)
    bad += len(at) != 1 or got != float(want)
cell = cube["loss"][0, 3, 0, 0, 0]
bad += cell != points["loss"][[i for i in at]][0]
# The centre of the random plane's grid is the origin, computed through the weighted sum.
middle = [points["loss"][i] for i in range(len(points["loss"])) if points["surface"][i] == "random"
          and (points["point"][i] == "step001200" or (points["column"][i], points["grid_row"][i]) == (1, 1))]
bad += len(middle) != 2 or middle[0] != middle[1]
bad += any(points["status"] != 1)
sys.exit(int(bad) != 0)
PYTHON

only_bits

# A degenerate plane: its points fail with a reason, the cells do not.
mkdir "$work/same"
cp -r "$quickstart/trajectory/step000100" "$work/same/a"
cp -r "$quickstart/trajectory/step000100" "$work/same/b"
printf 'checkpoint,step\na,1\nb,2\n' >"$work/same.csv"
QTRAJ_TRACE=visit "$QTRAJ" run "$work/sweep.yaml" --set "results=$work/same.h5" --set 'surfaces=[{plane: quantization, columns: 2, rows: 2}]' \
    --set "models[0].trajectory=$work/same.csv" --set "models[0].path=$work/same/{checkpoint}" >/dev/null 2>"$work/err"
[ $? = 1 ] || fail "two equal checkpoints: exit code: $(cat "$work/err")"
[ "$(grep -c "surface quantization: its plane is made" "$work/err")" = 1 ] ||
    fail "a plane that is none is made for each of its points: $(cat "$work/err")"
"$QTRAJ" status "$work/same.h5" >"$work/out"
grep -q "surface quantization: 0 points done, 7 failed" "$work/out" && grep -q "span no plane" "$work/out" ||
    fail "status of a plane that is none: $(cat "$work/out")"

# Stopped midway: finished points stay; a finer grid computes only new points.
"$QTRAJ" run "$work/sweep.yaml" --set "results=$work/part.h5" --only surface=run >/dev/null 2>"$work/err" || fail "--only"
grep -q "13 of 32 points" "$work/err" || fail "--only surface: $(cat "$work/err")"
"$QTRAJ" run "$work/sweep.yaml" --set "results=$work/part.h5" --set 'surfaces[1].columns=5' --only surface=run \
    >/dev/null 2>"$work/err" || fail "finer grid: $(cat "$work/err")"
grep -q "6 points of surfaces to do" "$work/err" || fail "a finer grid: $(cat "$work/err")"

# The principal plane of a run and its branch: shares of the variance and losses of both runs' checkpoints; without the branch it is another one.
cp "$work/sweep.yaml" "$work/branch.yaml"
cat >>"$work/branch.yaml" <<YAML
  - {name: cooldown, branch_of: quickstart, trajectory: $quickstart/cooldown.csv, path: "$quickstart/cooldown/{checkpoint}", tokenizer: $tokenizer}
YAML
"$QTRAJ" run "$work/branch.yaml" --set "results=$work/branch.h5" --set 'surfaces=[{name: both, plane: trajectory, branches: true, columns: 0, rows: 0}, {name: alone, plane: trajectory, columns: 0, rows: 0}]' \
    --set 'methods=[{method: rtn, bits: [4], group_size: 64}]' --set 'bits=[4]' --set calibration=null >/dev/null 2>"$work/err" || fail "a plane with a branch: $(cat "$work/err")"
"$python" - "$work/branch.h5" "$quickstart" "$SOURCE/tests/tools" <<'PYTHON' || fail "the plane of a run and its branch"
import sys
import h5py
import numpy as np
sys.path.insert(0, sys.argv[3])
from safetensors_reader import load
cube = h5py.File(sys.argv[1])
of = {k: (c.asstr()[:] if h5py.check_string_dtype(c.dtype) else c[:]) for k, c in cube["surfaces"].items()}
models, names = cube["model"].asstr()[:], cube["checkpoint_name"].asstr()[:]
shares = {}
for surface, runs in (("both", 2), ("alone", 1)):
    rows = of["surface"] == surface
    wanted = {("cooldown/" if m else "") + names[m, c]: (m, c) for m in range(runs) for c in range(names.shape[1]) if names[m, c]}
    assert list(models) == ["quickstart", "cooldown"] and set(of["point"][rows]) == set(wanted) and rows.sum() == len(wanted), of["point"][rows]
    weights = []
    for name, loss in zip(of["point"][rows], of["loss"][rows]):
        assert loss == cube["baseline_loss"][wanted[name]][0], (name, loss)
        folder = name if "/" in name else f"trajectory/{name}"
        weights.append(np.concatenate([t.ravel().astype(np.float64) for _, t in sorted(load(f"{sys.argv[2]}/{folder}/model.safetensors").items())]))
    weights = np.array(weights) - np.mean(weights, axis=0)
    values = np.linalg.eigvalsh(weights @ weights.T)[::-1]
    shares[surface] = [of[f"share_{k}"][rows][0] for k in (1, 2)]
    assert np.allclose(shares[surface], values[:2] / values.sum(), rtol=1e-6), (shares, values / values.sum())
    place = np.array([of["a"][rows], of["b"][rows]]).T
    inside = np.linalg.norm(place[:, None] - place[None], axis=-1)
    outside = np.linalg.norm(weights[:, None] - weights[None], axis=-1)
    assert (inside <= outside * (1 + 1e-6)).all()
assert abs(shares["both"][0] - shares["alone"][0]) > 1e-3, shares
PYTHON
finish
