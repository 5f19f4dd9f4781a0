#!/usr/bin/env bash
# `averages` of a sweep: the same numbers as of the folders that `qtraj average` writes, members of several types and
# files, resuming, a changed and a missing member.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy xarray h5netcdf

store() { "$python" "$SOURCE/tests/golden/average.py" store "$@" || fail "store $*"; }
run() { "$QTRAJ" run "$work/$1.yaml" 2>"$work/err" >/dev/null || fail "run of $1: $(tail -3 "$work/err")"; }

own_text "$work/text.txt"
main=$quickstart/trajectory
mkdir "$work/main"
cp -r "$main/step000500" "$main/step001000" "$work/main"
store "$main/step000700" "$work/main/step000700" F32 3
store "$main/step000900" "$work/main/step000900" F16 2
{
    echo "checkpoint,step,tokens,learning_rate,phase,note"
    echo "step000500,500,5e6,4e-3,stable,a"
    echo "step000700,700,7e6,4e-3,stable,b"
    echo "step000900,900,9e6,4e-3,stable,c"
    echo "step001000,1000,1e7,2e-3,decay,d"
} >"$work/main.csv"

# settings NAME: what both sweeps share, on standard output.
settings() {
    cat <<YAML
name: $1
results: $1.h5
bits: [3]
methods:
  - {method: rtn, symmetric: true, group_size: 64}
  - {method: gptq, symmetric: true, group_size: 64}
calibration: {text: text.txt, length: 64, samples: 4}
evaluation: [{name: own, text: text.txt, length: 64, skip: 8, samples: 4}]
curvature: {sharpness: power, products: 4, trace: 1, sequences: 2, length: 32, warm_start: true, second_order: total, critical: true}
run: {threads: 1}
YAML
}
{
    settings fly
    cat <<YAML
surfaces: [{name: s, plane: quantization, checkpoint: lawa@step000900, columns: 0, rows: 0, samples: 2}]
models:
  - name: main
    trajectory: main.csv
    path: "$work/main/{checkpoint}"
    tokenizer: $main/tokenizer.json
    averages:
      - {name: lawa, window: 2, phase: stable}
      - {name: one, window: 1, stride: 2}
      - {name: ema, decay: 0.25, stride: 0, dtype: f32}
      - {name: soup, of: [step001000, cool/step000800], weights: [1, 3]}
  - name: cool
    branch_of: main
    trajectory: cool.csv
    path: "$quickstart/cooldown/{checkpoint}"
    tokenizer: $main/tokenizer.json
YAML
} >"$work/fly.yaml"
printf 'checkpoint,step,tokens\nstep000800,800,8e6\n' >"$work/cool.csv"

# --- the same averages as folders ---
average() { "$QTRAJ" average "$@" 2>"$work/err" || fail "average $*: $(cat "$work/err")"; }
m=$work/main/step000
average "$work/lawa-700" "${m}500" "${m}700"
average "$work/lawa-900" "${m}700" "${m}900"
average "$work/ema-1000" "${m}500" "${m}700" "${m}900" "$work/main/step001000" --ema 0.25 --dtype f32
average "$work/soup-1" "$work/main/step001000" "$quickstart/cooldown/step000800" --weights 1,3
{
    settings disk
    echo "surfaces: [{name: s, plane: quantization, model: lawa, columns: 0, rows: 0, samples: 2}]"
    echo "models:"
    for name in lawa ema soup; do
        echo "  - {name: $name, trajectory: $name.csv, path: \"$work/$name-{checkpoint}\", tokenizer: $main/tokenizer.json}"
    done
} >"$work/disk.yaml"
printf 'checkpoint\n700\n900\n' >"$work/lawa.csv"
printf 'checkpoint\n1000\n' >"$work/ema.csv"
printf 'checkpoint\n1\n' >"$work/soup.csv"

launch 300 3 run "$work/fly.yaml" || fail "run: $(tail -3 "$work/err")"
run disk
"$python" - "$work" <<'PYTHON' || fail "the averages' cells"
import sys
import numpy as np
import xarray as xr

fly, disk = (xr.open_dataset(f"{sys.argv[1]}/{name}.h5", engine="h5netcdf") for name in ("fly", "disk"))
one = fly.sel(model="main")
names = [str(n) for n in one.checkpoint_name.values]
assert names[4:] == ["lawa@step000700", "lawa@step000900", "one@step000700", "one@step001000", "ema@step001000", "soup"], names
assert [str(k) for k in one.kind.values] == 4 * ["stored"] + 6 * ["average"]
assert [str(k) for k in one.average.values] == 4 * [""] + ["lawa", "lawa", "one", "one", "ema", "soup"]
at = {name: i for i, name in enumerate(names)}
recipes = {name: str(one.recipe.values[i]) for name, i in at.items()}
assert recipes["lawa@step000900"] == "average(step000700, step000900)", recipes
assert recipes["one@step001000"] == "average(step001000)"
assert recipes["soup"] == "average(1 step001000, 3 cool/step000800)"
assert recipes["ema@step001000"].startswith("average f32(0.015625 step000500, 0.046875 step000700, 0.1875 "), recipes
assert recipes["step000500"] == ""
for name, last in (("lawa@step000900", "step000900"), ("ema@step001000", "step001000")):
    for x in ("step", "tokens", "learning_rate", "phase", "note"):
        assert one[x].values[at[name]] == one[x].values[at[last]], (name, x)
assert str(one.note.values[at["soup"]]) == "" and one.step.values[at["soup"]] == 800

def equal(here, a, there, b, left_out=()):
    """All numbers of checkpoint b in `there` are those of a in `here`, bit for bit."""
    compared = 0
    for name, x in here.data_vars.items():
        if "checkpoint" not in x.dims or x.attrs.get("volatile") or x.dtype.kind not in "fi" or name in left_out:
            continue
        v, w = x.isel(checkpoint=a).values, there[name].isel(checkpoint=b).values
        assert v.shape == w.shape and np.array_equal(v, w, equal_nan=True), (name, v, w)
        compared += np.isfinite(v).sum() if x.dtype.kind == "f" else 0
    return compared

pairs = [("lawa@step000700", "lawa", 0), ("lawa@step000900", "lawa", 1), ("ema@step001000", "ema", 0), ("soup", "soup", 0)]
for name, model, i in pairs:
    assert equal(one, at[name], disk.sel(model=model), i) > 30, name
# LAWA with window 1 is the checkpoint, but for what depends on the checkpoint before it.
chain = [n for n in fly.data_vars if n.startswith(("critical", "sharpness", "curvature_along"))] + ["eigenvalue"]
for name in ("step000700", "step001000"):
    assert equal(one, at["one@" + name], one, at[name], chain) > 20, name
assert (one.status.isel(checkpoint=slice(4, None)) == 1).all() and (one.curvature_status == 1).all()
points = [xr.open_dataset(f"{sys.argv[1]}/{name}.h5", engine="h5netcdf", group="surfaces") for name in ("fly", "disk")]
assert [str(p) for p in points[0].point.values] == ["lawa@step000900", "lawa@step000700", "quantized"]
for x in ("loss", "a", "b", "alpha", "beta"):
    assert np.array_equal(points[0][x].values, points[1][x].values[:3]), x
PYTHON

# --- figures: lines of their own for the averages that slide, behind the branches; without them as before ---
PYTHONPATH=$SOURCE/analysis "$python" - "$work/fly.h5" <<'PYTHON' || fail "the lines of the figures"
import sys
from cube import families, open_cube, trajectories
cube = open_cube(sys.argv[1])
assert [(line.model, line.average) for line in trajectories(cube)] == [("main", ""), ("cool", "")]
(lines,) = families(cube, averages=True)
assert [(line.model, line.average, line.number) for line in lines] == [
    ("main", "", 0), ("cool", "", 1), ("main", "lawa", 2), ("main", "one", 3), ("main", "ema", 4),
    ("main", "soup", 5)], lines
assert [list(line.at) for line in lines[2:]] == [[7e6, 9e6], [7e6, 1e7], [1e7], [8e6]] and lines[2].fork == -1
PYTHON

# --- nothing is left to do; a changed member makes the averages that have it pending, and no others ---
changed() { grep -o '[^ ]*: weights have changed' "$work/err" | sed 's|.*/||; s/: .*//' | sort | tr '\n' ' '; }
cells() { grep -c '"type":"cell"' "$work/fly.journal"; }
plan() { "$QTRAJ" plan "$work/fly.yaml" --brief 2>"$work/err" >"$work/out" || fail "plan: $(cat "$work/err")"; }
plan
grep -q 'left: 0 visits' "$work/out" || fail "work is left: $(tail -1 "$work/out")"
run fly
[ "$(cells)" = 22 ] || fail "$(cells) cells in the journal, expected 22"
store "$main/step001100" "$work/again" F32 3
mv "$work/main/step000700" "$work/old"
mv "$work/again" "$work/main/step000700"
plan
want="ema@step001000 lawa@step000700 lawa@step000900 one@step000700 step000700 "
[ "$(changed)" = "$want" ] || fail "changed: $(changed), expected: $want"
run fly
[ "$(cells)" = 32 ] || fail "$(cells) cells in the journal, expected 10 more for 5 changed checkpoints"
"$QTRAJ" rebuild "$work/new.h5" "$work/fly.journal" 2>/dev/null || fail "rebuild"

# --- a missing member fails its averages alone, until it is there ---
mv "$work/main/step000700" "$work/away"
sed -i 's|      - {name: soup, .*|&\n      - {name: pair, of: [step000500, step000700]}|' "$work/fly.yaml"
"$QTRAJ" run "$work/fly.yaml" 2>"$work/err"
[ $? = 1 ] || fail "a missing member: $(tail -3 "$work/err")"
"$QTRAJ" status "$work/fly.h5" >"$work/out"
grep -q "$work/main/step000700: no such folder" "$work/out" || fail "a missing member is not named: $(cat "$work/out")"
[ "$("$QTRAJ" status "$work/fly.h5" --json | grep -c '"failed"')" -gt 0 ] || fail "nothing failed"
mv "$work/away" "$work/main/step000700"
run fly
[ "$("$QTRAJ" show "$work/fly.h5" --only checkpoint=pair --only bits=3 --csv | grep -c ',done,')" = 2 ] ||
    fail "the average was not computed when its member came back"

# --- wrong averages are told before anything is computed ---
refuse() {
    local name=$1 entry=$2 pattern=$3
    sed "s#      - {name: one, .*#      - $entry#" "$work/fly.yaml" >"$work/bad.yaml"
    "$QTRAJ" plan "$work/bad.yaml" >"$work/out" 2>"$work/err"
    [ $? = 2 ] || fail "$name: $(tail -1 "$work/err")"
    grep -qF -- "$pattern" "$work/err" || fail "$name: '$(cat "$work/err")' does not say '$pattern'"
}
refuse "no kind" "{name: a}" 'models[0].averages[1]: expected `window` (LAWA), `decay` (moving average) or `of` (soup)'
refuse "window too long" "{name: a, window: 4, phase: stable}" "averages[1].window: 4 checkpoints; $work/main.csv has 3 of the phase stable"
refuse "no such phase" "{name: a, window: 2, phase: stabel}" "averages[1].phase: no checkpoint of $work/main.csv has the phase stabel, did you mean stable?"
refuse "no such member" "{name: a, of: [step000500, cool/step1]}" "averages[1].of: no checkpoint of $work/main.csv has the name cool/step1"
refuse "a member twice" "{name: a, of: [step000500, main/step000500]}" "averages[1].of: main/step000500 is in the list twice"
refuse "an average of averages" "{name: a, of: [lawa@step000700]}" "averages[1].of: lawa@step000700 is an average itself"
refuse "too few weights" "{name: a, of: [step000500, step000700], weights: [1]}" "averages[1].weights: 1 of them, but \`of\` has 2"
refuse "weights that sum to 0" "{name: a, of: [step000500, step000700], weights: [1, -1]}" "averages[1].weights: they sum to 0"
refuse "two kinds" "{name: a, of: [step000500], window: 2}" "averages[1].window: does not go with \`of\`"
refuse "weights of a window" "{name: a, window: 2, weights: [1, 2]}" "averages[1].weights: go with \`of\`"
refuse "decay 1" "{name: a, decay: 1}" "averages[1].decay: expected a number from 0 to 0.999999"
refuse "a name twice" "{name: lawa, window: 3}" "averages[1].name: the name lawa is already that of averages[0]"
refuse "a checkpoint's name" "{name: step000500, of: [step000700]}" "averages[1].name: main already has a checkpoint step000500"
finish
