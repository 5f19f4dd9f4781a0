#!/usr/bin/env bash
# Claims on runs with known effects: intervals hold as often as they say, false claims are rarely supported; the command on cubes.
. "$SOURCE/tests/tools/lib.sh"
: "${CUBES:?the cubes that golden.cubes has made}"
need_python h5py numpy pandas scipy statsmodels xarray h5netcdf
export PYTHONPATH=$SOURCE/analysis

"$python" "$SOURCE/tests/tools/check_claims.py" || fail "claims" # --long: 200 repetitions

claims() { "$python" -W error::UserWarning "$SOURCE/analysis/claims.py" "$@" >"$work/found" 2>"$work/err"; }
claims "$CUBES/averages.h5" --bits 2,3 --json || fail "a cube: $(cat "$work/err")"
"$python" - "$work/found" "$CUBES/averages.h5" <<'PY' || fail "the JSON: $(head -c 2000 "$work/found")"
import json, sys
found = {row["name"]: row for row in json.load(open(sys.argv[1]))}
average = found["average-error"]
assert average["n"] == 1 and average["low"] < average["estimate"] < average["high"] and average["interval over"] == "the text, of 1 run alone", average
assert average["command"] == f"analysis/claims.py {sys.argv[2]} --bits 2,3 --only average-error", average["command"]
assert found["weight-decay"]["verdict"] == "cannot tell" and found["weight-decay"]["estimate"] is None, found["weight-decay"]
PY
claims "$CUBES/two_models.h5" --quantizer gptq --only bits-lower || fail "one claim: $(cat "$work/err")"
grep -q 'growth of the added loss with ln(bits): -4\..* (2 runs: no interval; 64 errors)$' "$work/found" || fail "$(cat "$work/found")"
claims "$CUBES/two_models.h5" --only bits-lower --compare model || fail "claims by model: $(cat "$work/err")"
[ "$(grep -c '(1 run: no interval; ' "$work/found")" = 2 ] && grep -qx 'model OLMo2-7B' "$work/found" && grep -qx 'model SmolLM3-3B' "$work/found" ||
    fail "claims by model: $(cat "$work/found")"
claims "$CUBES/changes.h5" --only cause-noise --json || fail "imitations: $(cat "$work/err")"
grep -q '"n": 1,' "$work/found" || fail "$(cat "$work/found")"
claims "$CUBES/averages.h5" --bits 2,3 --only average-error || fail "one run: $(cat "$work/err")"
grep -q 'of 1 run alone; 1 run; .* errors)$' "$work/found" && grep -q ': cannot tell$' "$work/found" || fail "one run: $(cat "$work/found")"
claims "$CUBES/odd.h5" --only bits-lower || fail "unfinished: $(cat "$work/err")"
head -n 1 "$work/found" | grep -q '^1 cell is pending, 1 failed; this is of the others:$' || fail "unfinished: $(cat "$work/found")"
# a run is one run however many files have it
"$python" - "$CUBES" "$work" <<'PY' 2>"$work/err" || fail "a run in several files: $(cat "$work/err")"
import pathlib, sys
import numpy as np
import qtraj
from qtraj.claims import claims
cubes, work = map(pathlib.Path, sys.argv[1:])

def saved(name, cube, part=None, **renamed):
    """A file of the cube, or of a part of it; with digests of weights."""
    digests = [[f"{model}/{name}" for name in names] for model, names in zip(cube.model.values, cube.checkpoint_name.values)]
    cube = cube.assign(weights_digest=(("model", "checkpoint"), np.array(digests, dtype=object)))
    cube = qtraj.select(cube, **part) if part else cube
    cube = cube.assign_coords(model=[renamed.get(str(one), str(one)) for one in cube.model.values])
    cube["branch_of"] = "model", np.array([renamed.get(str(one), str(one)) for one in cube.branch_of.values], dtype=object)
    cube.attrs = {}
    cube.drop_vars(["file", "name_in_file"]).to_netcdf(work / name, engine="h5netcdf")
    return work / name

def verdicts(*files):
    found = claims(qtraj.open(*files))
    return found.drop(columns="command"), found.attrs["left_out"]

for name in ("averages", "two_models"):
    cube = qtraj.open(cubes / f"{name}.h5")
    cube = cube if "branch_of" in cube.variables else cube.assign(branch_of=("model", np.array([""], dtype=object)))
    one, twice = saved("a.h5", cube), saved("b.h5", cube)
    wanted, left_out = verdicts(one)
    count = len(qtraj.points(one))
    assert not left_out and count, left_out
    found, left_out = verdicts(one, twice)
    assert found.equals(wanted) and left_out == {"points that an earlier file has too": count}, (name, left_out, found.compare(wanted))
    again = saved("c.h5", cube, {"bits": list(cube.bits.values[:1])}, **{"SmolLM3-3B": "another name"})  # the same weights
    found, left_out = verdicts(one, again)
    assert found.equals(wanted) and 0 < sum(left_out.values()) < count, (name, left_out)
    # two sweeps, each with bit-widths of its own
    parts = [saved(f"{k}.h5", cube, {"bits": list(bits)}) for k, bits in enumerate((cube.bits.values[:1], cube.bits.values[1:]))]
    found, left_out = verdicts(*parts)
    runs = wanted.set_index("name").n["bits-lower"]
    assert found.set_index("name").n["bits-lower"] == runs and not left_out, (name, found, left_out)
    assert np.isclose(found.estimate, wanted.estimate, equal_nan=True).all(), (name, found.compare(wanted))
    file = saved("d.h5", cube.assign_coords(  # other weights under the same names
        model=[f"{one}'" for one in cube.model.values]), **{f"{one}'": str(one) for one in cube.model.values})
    found, left_out = verdicts(one, file)
    assert found.set_index("name").n["bits-lower"] == 2 * runs and not left_out, (name, left_out)
    assert len(qtraj.points(one, file)) == 2 * count and qtraj.points(one, file).model.nunique() == 2 * cube.sizes["model"]
PY
claims "$work/a.h5" "$work/b.h5" --only bits-lower,decay-rises || fail "two sweeps of a run: $(cat "$work/err")"
grep -q '^left out: .* points that an earlier file has too$' "$work/found" && [ "$(grep -c '^  supported if' "$work/found")" = 2 ] || fail "$(cat "$work/found")"
echo "no cube" >"$work/no.h5"
"$python" "$SOURCE/tests/tools/refusals.py" "$SOURCE/analysis/claims.py" >"$work/found" <<EOF || fail "$(cat "$work/found")"
"no.h5: not a results cube" $work/no.h5
"there is no claim nothing; there are decay-rises" $CUBES/one.h5 --only nothing
"--bits few: expected positive numbers" $CUBES/one.h5 --bits few
"no method is called nobody; there are rtn, gptq" $CUBES/one.h5 --quantizer nobody
EOF
finish
