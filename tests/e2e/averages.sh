#!/usr/bin/env bash
# `averages` of a sweep: the same numbers as of the folders that `qtraj average` writes, members of several types and
# files, resuming, a changed and a missing member.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy xarray h5netcdf

store() { "$python" "$SOURCE/tests/golden/average.py" store "$@" || fail "store $*"; }
run() { "$QTRAJ" run "$work/$1.yaml" 2>"$work/err" >/dev/null || fail "run of $1: $(tail -3 "$work/err")"; }

fixed_text "$work/once.txt"
for ((i = 0; i < 4; i++)); do cat "$work/once.txt"; done >"$work/text.txt"
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
      - {name: greedy, of: [step000500, step000700, cool/step000800, step001000, step000900], greedy: {text: text.txt, length: 64, skip: 300, samples: 4}}
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
candidates=("${m}500" "${m}700" "$quickstart/cooldown/step000800" "$work/main/step001000" "${m}900")
average "$work/greedy-1" "${candidates[@]}" --greedy --text "$work/text.txt" --length 64 --skip 300 --samples 4 \
    --tokenizer "$main/tokenizer.json" >"$work/chosen"
{
    settings disk
    echo "surfaces: [{name: s, plane: quantization, model: lawa, columns: 0, rows: 0, samples: 2}]"
    echo "models:"
    for name in lawa ema soup greedy; do
        echo "  - {name: $name, trajectory: $name.csv, path: \"$work/$name-{checkpoint}\", tokenizer: $main/tokenizer.json}"
    done
} >"$work/disk.yaml"
printf 'checkpoint\n700\n900\n' >"$work/lawa.csv"
printf 'checkpoint\n1000\n' >"$work/ema.csv"
printf 'checkpoint\n1\n' | tee "$work/soup.csv" >"$work/greedy.csv"

launch 300 3 run "$work/fly.yaml" || fail "run: $(tail -3 "$work/err")"
run disk
"$python" - "$work" <<'PYTHON' || fail "the averages' cells"
import sys
import numpy as np
import xarray as xr

fly, disk = (xr.open_dataset(f"{sys.argv[1]}/{name}.h5", engine="h5netcdf") for name in ("fly", "disk"))
one = fly.sel(model="main")
names = [str(n) for n in one.checkpoint_name.values]
assert names[4:] == ["lawa@step000700", "lawa@step000900", "one@step000700", "one@step001000", "ema@step001000", "soup", "greedy"], names
assert [str(k) for k in one.kind.values] == 4 * ["stored"] + 7 * ["average"]
assert [str(k) for k in one.average.values] == 4 * [""] + ["lawa", "lawa", "one", "one", "ema", "soup", "greedy"]
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

pairs = [("lawa@step000700", "lawa", 0), ("lawa@step000900", "lawa", 1), ("ema@step001000", "ema", 0), ("soup", "soup", 0), ("greedy", "greedy", 0)]
chosen_by = ["soup_loss"]  # not in folders
for name, model, i in pairs:
    assert equal(one, at[name], disk.sel(model=model), i, chosen_by) > 30, name
# LAWA with window 1 is the checkpoint, but for what depends on the checkpoint before it.
chain = [n for n in fly.data_vars if n.startswith(("critical", "sharpness", "curvature_along"))] + ["eigenvalue"]
for name in ("step000700", "step001000"):
    assert equal(one, at["one@" + name], one, at[name], chain) > 20, name

# A greedy soup: its candidates in the recipe, in the order of their losses in soup_candidates; the same choice and losses
# as of the folders.
greedy = one.isel(checkpoint=at["greedy"])
of = "step000500, step000700, cool/step000800, step001000, step000900"
assert recipes["greedy"].startswith(f"greedy({of}; text ") and len(recipes["greedy"]) == len(f"greedy({of}; text )") + 32, recipes
assert str(greedy.soup_text).endswith("/text.txt") or str(greedy.soup_text.values).endswith("text.txt"), greedy.soup_text
table = xr.open_dataset(f"{sys.argv[1]}/fly.h5", engine="h5netcdf", group="soup_candidates")
assert list(table.model.values) == 5 * ["main"] and list(table.checkpoint_name.values) == 5 * ["greedy"]
kept = table.kept.values == 1
assert str(greedy.soup_members.values) == ", ".join(table.candidate.values[kept]) and 1 < kept.sum() < 5, table
alone, soup = table.heldout_loss.values, table.soup_loss.values
best = alone[0]
assert (np.diff(alone) >= 0).all() and soup[0] == alone[0]
for i in range(1, 5):
    assert kept[i] == (soup[i] <= best), (i, table)
    best = min(best, soup[i])
assert float(greedy.soup_loss) == best and (one.soup_members.values != "").sum() == 1
lines = [line.split() for line in open(f"{sys.argv[1]}/chosen").read().splitlines()[1:]]
for line, a, s, k, name in zip(lines, alone, soup, kept, table.candidate.values, strict=True):
    assert line[:2] == [f"{a:.6f}", f"{s:.6f}"] and (line[2] == "kept") == k and line[-1].endswith(name[-10:]), (line, a, s, k, name)
assert (one.status.isel(checkpoint=slice(4, None)) == 1).all() and (one.curvature_status == 1).all()
points = [xr.open_dataset(f"{sys.argv[1]}/{name}.h5", engine="h5netcdf", group="surfaces") for name in ("fly", "disk")]
assert [str(p) for p in points[0].point.values] == ["lawa@step000900", "lawa@step000700", "quantized"]
for x in ("loss", "a", "b", "alpha", "beta"):
    assert np.array_equal(points[0][x].values, points[1][x].values[:3]), x
PYTHON

# --- figures: lines of their own for the averages that slide, behind the branches; without them as before ---
PYTHONPATH=$SOURCE/analysis "$python" - "$work/fly.h5" <<'PYTHON' || fail "the lines of the figures"
import sys
import qtraj
cube = qtraj.open(sys.argv[1])
assert [(line.model, line.average) for line in qtraj.trajectories(cube)] == [("main", ""), ("cool", "")]
(lines,) = qtraj.families(cube, averages=True)
assert [(line.model, line.average, line.number) for line in lines] == [
    ("main", "", 0), ("cool", "", 1), ("main", "lawa", 2), ("main", "one", 3), ("main", "ema", 4),
    ("main", "soup", 5), ("main", "greedy", 6)], lines
assert [list(line.at) for line in lines[2:]] == [[7e6, 9e6], [7e6, 1e7], [1e7], [8e6], [9e6]] and lines[2].fork == -1
PYTHON

# --- nothing is left to do; a changed member makes the averages that have it pending, and no others ---
changed() { # the checkpoints that a plan asks for, of which its warning names the first
    "$QTRAJ" plan "$work/fly.yaml" --json 2>/dev/null | "$python" -c '
import json, sys
visits = json.load(sys.stdin)["visits"]
print("".join(sorted(f"{v['"'checkpoint'"']} " for v in visits if any(c["status"] == "pending" for c in v["cells"]))))'
}
cells() { grep -c '"type":"cell"' "$work/fly.journal"; }
plan() { "$QTRAJ" plan "$work/fly.yaml" --brief 2>"$work/err" >"$work/out" || fail "plan: $(cat "$work/err")"; }
plan
grep -q 'left: 0 visits' "$work/out" || fail "work is left: $(tail -1 "$work/out")"
run fly
[ "$(cells)" = 24 ] || fail "$(cells) cells in the journal, expected 24"

# --- a greedy soup: its choice is not made again for further cells; a choice that is killed goes on where it was ---
chosen() { grep -c 'trace visit: greedy soup' "$work/err"; }
QTRAJ_TRACE=visit "$QTRAJ" run "$work/fly.yaml" --set 'bits=[3, 4]' --only checkpoint=greedy --only quantizer=rtn 2>"$work/err" || fail "4 bits: $(tail -3 "$work/err")"
[ "$(chosen)" = 0 ] || fail "a choice was made again: $(grep greedy "$work/err")"
killed() { # COUNT: before that line about the choice
    KILL_COUNT=$1 KILL_TEXT='trace visit: greedy' QTRAJ_TRACE=visit QTRAJ_SAVE=always LD_PRELOAD=$(dirname "$QTRAJ")/libkill_at_line.so \
        ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
        "$QTRAJ" run "$work/fly.yaml" --set "results=$work/killed.h5" --only checkpoint=greedy --only quantizer=rtn >/dev/null 2>"$work/err"
}
if [ -e "$(dirname "$QTRAJ")/libkill_at_line.so" ]; then
    killed 4 && fail "it was not killed"
    killed 4 && fail "it was not killed again"
    killed 99 || fail "after two kills: $(tail -3 "$work/err")"
    grep -q 'greedy soup): 6 evaluations are done' "$work/err" || fail "the choice began anew: $(grep greedy "$work/err")"
    [ "$(chosen)" = 3 ] || fail "$(chosen) evaluations after 6 of 9"
    [ ! -e "$work/killed.h5.checkpoints" ] || fail "files are left: $(ls "$work/killed.h5.checkpoints")"
    for name in fly killed; do
        "$QTRAJ" show "$work/$name.h5" --only checkpoint=greedy --only quantizer=rtn --only bits=3 --csv >"$work/$name.csv.out" || fail "show $name"
    done
    cut -d, -f1-12 "$work/fly.csv.out" >"$work/a"
    cut -d, -f1-12 "$work/killed.csv.out" >"$work/b"
    cmp "$work/a" "$work/b" || fail "another result after kills: $(diff "$work/a" "$work/b")"
fi

# --- a judge: the losses of quantized weights choose, as for folders; its settings are part of the key ---
sed -e "s/name: greedy, .*samples: 4/&, judge: gptq, bits: 3/" -e '/name: \(lawa\|one\|ema\|soup\),/d' -e '/^curvature\|^surfaces/d' "$work/fly.yaml" >"$work/judged.yaml"
judged() { "$QTRAJ" "$1" "$work/judged.yaml" --set "results=$work/judged.h5" --only checkpoint=greedy "${@:2}" >"$work/out" 2>"$work/err"; }
judged run || fail "judged: $(tail -3 "$work/err")"
average "$work/judged-1" "${candidates[@]}" --greedy --text "$work/text.txt" --length 64 --skip 300 --samples 4 --judge gptq --bits 3 \
    --group-size 64 --calibration-text "$work/text.txt" --calibration-length 64 --calibration-samples 4 --tokenizer "$main/tokenizer.json" >"$work/chosen"
"$python" - "$work" <<'PYTHON' || fail "a judged soup"
import sys
import xarray as xr
cube, table = (xr.open_dataset(f"{sys.argv[1]}/judged.h5", engine="h5netcdf", group=g) for g in (None, "soup_candidates"))
recipe = str(cube.recipe.values[cube.kind.values == "average"][0])
assert "; text " in recipe and "; judge gptq 3 " in recipe, recipe
lines = [line.split() for line in open(f"{sys.argv[1]}/chosen").read().splitlines()[1:]]
for i, line in enumerate(lines):
    assert line[:2] == [f"{table.heldout_loss.values[i]:.6f}", f"{table.soup_loss.values[i]:.6f}"], (line, table)
    assert (line[2] == "kept") == bool(table.kept.values[i]) and line[-1].endswith(str(table.candidate.values[i])[-10:]), (line, table)
PYTHON
left() { # COUNT OPTION ...: visits that are left
    judged plan --brief "${@:2}" || fail "plan of $*: $(cat "$work/err")"
    grep -q "left: $1 visit" "$work/out" || fail "$*: $(cat "$work/out")"
}
left 0
left 1 --set models[0].averages[0].greedy.bits=2
left 1 --set models[0].averages[0].greedy.judge=rtn
left 1 --set methods[1].group_size=32
left 1 --set calibration.samples=3
left 0 --set methods[0].group_size=32 --only quantizer=gptq
sed '/method: gptq/d' "$work/judged.yaml" >"$work/rounded.yaml" # its calibration is the judge's
"$QTRAJ" plan "$work/rounded.yaml" --brief >"$work/out" 2>"$work/err" || fail "a judge that is no entry: $(cat "$work/err")"
"$QTRAJ" plan "$work/rounded.yaml" --set calibration=null >"$work/out" 2>"$work/err"
grep -q 'calibration: missing; gptq needs calibration text, by which average greedy is judged' "$work/err" || fail "no calibration: $(cat "$work/err")"
echo '{"other": "field"}' >"$work/few.jsonl"
for text in few.jsonl none.txt; do
    judged plan --brief --set "models[0].averages[0].greedy.text=$work/$text" --set 'models[0].averages[0].greedy.field=text'
    [ $? != 0 ] && [ "$(grep -c "$work/$text" "$work/err")" = 1 ] || fail "a text that cannot be read: $(cat "$work/err")"
    grep -q "averages\[0\].greedy.text" "$work/err" || fail "no place of the text: $(cat "$work/err")"
done
echo short >"$work/few.txt"
"$QTRAJ" run "$work/judged.yaml" --set "results=$work/few.h5" --set "models[0].averages[0].greedy.text=$work/few.txt" \
    --only quantizer=rtn --only checkpoint=greedy 2>"$work/err"
[ $? = 1 ] && grep -q "^failed: main greedy (rtn 3): $work/few.txt: no sequence is left" "$work/err" || fail "a text that is too short: $(cat "$work/err")"

# --- what `plan` counts for the choice: an evaluation of each of n candidates and of n - 1 soups ---
counted() { # NAME SED: the sweep with its greedy entry changed
    sed "/name: greedy/$2" "$work/fly.yaml" >"$work/counted.yaml"
    "$QTRAJ" plan "$work/counted.yaml" --set "results=$work/none.h5" --json >"$work/$1.json" 2>"$work/err" || fail "plan $1: $(cat "$work/err")"
}
counted none 's/, greedy: .*/}/'
counted five 's/x/x/'
counted twice 's/samples: 4/samples: 8/'
counted three 's/step000500, step000700, //'
counted three_of_none 's/step000500, step000700, \(.*\), greedy: .*/\1}/'
"$python" - "$work" <<'PYTHON' || fail "the cost of a choice"
import json
import sys
cost = {n: json.load(open(f"{sys.argv[1]}/{n}.json"))["cost"] for n in ("none", "five", "twice", "three", "three_of_none")}
work = {n: c["flop"]["forward"] + c["flop"]["head"] for n, c in cost.items()}
five, twice, three = work["five"] - work["none"], work["twice"] - work["none"], work["three"] - work["three_of_none"]
near = lambda a, b: abs(a / b - 1) < 1e-6
assert five > 0 and near(twice, 2 * five) and near(three, five * 5 / 9), (five, twice, three)
read = {n: c["bytes"] for n, c in cost.items()}
five, three = read["five"] - read["none"], read["three"] - read["three_of_none"]
assert near(five / (5 + 2 + 3 + 4 + 5), three / (3 + 2 + 3)), (five, three)
PYTHON
store "$main/step001100" "$work/again" F32 3
mv "$work/main/step000700" "$work/old"
mv "$work/again" "$work/main/step000700"
plan
want="ema@step001000 greedy lawa@step000700 lawa@step000900 one@step000700 step000700 "
[ "$(changed)" = "$want" ] || fail "changed: $(changed), expected: $want"
[ "$(grep -o 'main/.*' "$work/err")" = "main/step000700: weights have changed since their results were recorded; computing it again (5 more checkpoints likewise)" ] ||
    fail "the warning: $(cat "$work/err")"
"$QTRAJ" run "$work/fly.yaml" --only quantizer=rtn 2>"$work/err" || [ $? = 3 ] || fail "rtn alone: $(cat "$work/err")"
stale='15 results left out, of weights that have changed since: cell main step000700 gptq 3 bits, cell main lawa@step000700 gptq 3 bits, '
grep -q "$stale.* and 12 more; qtraj run computes what is missing$" "$work/err" || fail "left out: $(cat "$work/err")"
"$QTRAJ" show "$work/fly.yaml" 2>"$work/err" >/dev/null
[ "$(grep -c "$stale" "$work/err")" = 1 ] || fail "left out, show: $(cat "$work/err")"
run fly
[ "$(cells)" = 37 ] || fail "$(cells) cells in the journal, expected 12 more for 6 changed checkpoints"
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
refuse "no kind" "{name: a}" 'models[0].averages[1]: expected `window` (LAWA), `decay` (moving average), `of` (soup)'
refuse "window too long" "{name: a, window: 4, phase: stable}" "averages[1].window: 4 checkpoints; $work/main.csv has 3 of the phase stable"
refuse "no such phase" "{name: a, window: 2, phase: stabel}" "averages[1].phase: no checkpoint of $work/main.csv has the phase stabel, did you mean stable?"
refuse "no such member" "{name: a, of: [step000500, cool/step1]}" "averages[1].of: no checkpoint of $work/main.csv has the name cool/step1"
refuse "a member twice" "{name: a, of: [step000500, main/step000500]}" "averages[1].of: main/step000500 is in the list twice"
refuse "an average of averages" "{name: a, of: [lawa@step000700]}" "averages[1].of: lawa@step000700 is an average itself"
refuse "too few weights" "{name: a, of: [step000500, step000700], weights: [1]}" "averages[1].weights: 1 of them, but \`of\` has 2"
refuse "weights that sum to 0" "{name: a, of: [step000500, step000700], weights: [1, -1]}" "averages[1].weights: they sum to 0"
refuse "two kinds" "{name: a, of: [step000500], window: 2}" "averages[1].window: does not go with \`of\`"
refuse "weights of a window" "{name: a, window: 2, weights: [1, 2]}" "averages[1].weights: go with \`of\`"
refuse "a greedy window" "{name: a, window: 2, greedy: {text: text.txt}}" "averages[1].window: does not go with \`greedy\`"
refuse "greedy without a text" "{name: a, greedy: {length: 64}}" "averages[1].greedy: text or ids is missing"
refuse "a judge without a width" "{name: a, greedy: {text: text.txt, judge: rtn}}" 'averages[1].greedy.judge: expected `judge` and `bits`, or neither'
refuse "no such judge" "{name: a, greedy: {text: text.txt, judge: gtpq, bits: 3}}" 'averages[1].greedy.judge: gtpq: neither an entry of `methods` nor a method'
refuse "a judge's width" "{name: a, greedy: {text: text.txt, judge: nvfp4, bits: 3}}" "averages[1].greedy.bits: method nvfp4 has widths from 4 to 4 bits"
refuse "no greedy" "{name: a, of: [step000500], evaluated: true}" "averages[1].evaluated: goes with \`greedy\`"
refuse "a text that is evaluated" "{name: a, phase: stable, greedy: {text: text.txt, length: 64, skip: 9, samples: 9}}" "main: a: 3 of the 4 sequences of evaluation own are also in $work/text.txt"
refuse "decay 1" "{name: a, decay: 1}" "averages[1].decay: expected a number from 0 to 0.999999"
refuse "a name twice" "{name: lawa, window: 3}" "averages[1].name: the name lawa is already that of averages[0]"
refuse "a checkpoint's name" "{name: step000500, of: [step000700]}" "averages[1].name: main already has a checkpoint step000500"
finish
