#!/usr/bin/env bash
# The page of analysis/report.py in a headless browser: of cubes that the quickstart is not like, whole and by itself, with texts
# that would change it if they were not escaped.
. "$SOURCE/tests/tools/lib.sh"
: "${CUBES:?the cubes that golden.cubes has made}"
need_python h5py numpy matplotlib xarray h5netcdf scipy statsmodels jinja2

# what check_page.py must find
mkdir "$work/bad"
cat >"$work/bad/report.html" <<'HTML'
<!doctype html><html><body><p>one text</p><p style="position: absolute; top: 20px">another text</p><script>console.error("no")</script>
<div style="width: 2000px">a wide box</div><img src="data:image/png;base64,AAAA" alt="no picture"><img src="elsewhere.png" alt="another file">
<a href="#nowhere">a link</a></body></html>
HTML
"$python" "$SOURCE/tests/tools/check_page.py" "$work/bad/report.html" >"$work/found"
[ $? != 77 ] || skip "$(cat "$work/found") (package chromium-headless-shell)"
for fault in "1280: 'another text' lies over" "phone: 'another text' lies over" "1280: console: error: .'no'." "1280: the page is 20.. pixels wide" \
    "1280: picture: no picture" "1280: loads file://.*/elsewhere.png" "1280: link: #nowhere" "1280: only 4 texts"; do
    grep -q "$fault" "$work/found" || fail "not found: $fault"
done

report() { "$python" -W error::UserWarning "$SOURCE/analysis/report.py" "$@" --draws 5 >"$work/out" 2>"$work/err"; }
# The same with two figures, for what the page says: figures of these cubes are drawn by golden.figures_any_cube.
page_of() {
    PYTHONPATH=$SOURCE/analysis "$python" -W error::UserWarning -c 'from qtraj import figures
figures.FIGURES = figures.FIGURES[:2]
from qtraj.report import command
command.main()' "$@" --draws 5 >"$work/out" 2>"$work/err"
}
report "$CUBES/odd.h5" "$CUBES/averages.h5" --bits 2,3 --out "$work/two" || fail "two cubes: $(cat "$work/err")"
grep -q '^figure 1 of [0-9]*: relative_error$' "$work/err" || fail "no word of the figure that is drawn: $(cat "$work/err")"
page_of "$CUBES/two_datasets.h5" --bits 3 --out "$work/texts" || fail "two texts: $(cat "$work/err")"
grep -q 'Full-precision law: losses on several texts have no law in common' "$work/texts/report.html" || fail "no law of two texts, for another reason than Fits says"
report "$CUBES/names.h5" --bits 3 --out "$work/one" --title 'A title & more' || fail "one cube: $(cat "$work/err")"
"$python" "$SOURCE/tests/tools/check_page.py" "$work"/{one,two}/report.html >"$work/found" || fail "$(cat "$work/found")"

# the coming decay, by a law of runs that have ended; its numbers are predict.py's
cp "$CUBES/two_models.h5" "$work/growing.h5"
"$python" -c 'import h5py, sys; h5py.File(sys.argv[1], "r+")["learning_rate"][:] = 2e-4' "$work/growing.h5" || fail "no cube"
page_of "$work/growing.h5" --bits 3 --out "$work/ahead" --law published --end 2e11 || fail "the coming decay: $(cat "$work/err")"
delta=$("$python" "$SOURCE/analysis/predict.py" published --parameters 3e9 --tokens 2e11 --bits 3 --format csv | cut -d, -f5 | tail -n 1)
grep -A 9 '<th scope="row">OLMo2-7B, gptq, 3 bits</th>' "$work/ahead/report.html" | tr -d '\n' |
    grep -q "step014000.*$(printf '%.4g' "$delta")" || fail "the coming decay: $delta: $(grep -A 9 'OLMo2-7B, gptq, 3 bits' "$work/ahead/report.html")"

page_of "$CUBES/two_models.h5" "$CUBES/one.h5" --bits 3 --out "$work/side" --compare learning_rate || fail "runs side by side: $(cat "$work/err")"
[ "$(grep -c '<figure id="compared"' "$work/side/report.html")" = 1 ] && grep -q 'href="#compared">Runs side by side: learning rate</a>' "$work/side/report.html" &&
    [ -s "$work/side/compared.pdf" ] || fail "runs side by side: not on the page"

page=$work/two/report.html
[ "$(grep -c '<h3>Accuracies</h3>' "$page")" = 1 ] || fail "accuracies: not a section for the cube that has them, and for no other"
for text in '&lt;b&gt;bold&lt;/b&gt; &amp; &#34;quoted&#34; $\x$' '&lt;script&gt;alert(1)' '&lt;img src=x onerror=alert(2)&gt; is not finite' \
    '<td>failed</td>' '<td>pending</td>' '14 done, 1 failed, 1 pending' '1 cell is pending: these are not' '<figure id="2-averages">' 'odd.h5: What averaging changes' 'averages.h5: Loss surfaces' 'odd.h5: Accuracy and loss over training: the cube has no accuracies' \
    '<figure id="2-accuracy_loss">' '<th scope="row">SmolLM3-3B, step002000, 8 bits, rtn, social_iqa</th>' '<td>a choice is too long</td>' 'items of tasks: social_iqa 400; number of solved examples not recorded' \
    '<th scope="row">social_iqa</th><td>400</td><td>7</td>' '<strong>Asked:</strong> How much do rtn, gptq at 2, 3 bits raise' '<td>since step 1,000</td>' '<figure id="1-relative_error">' 'href="#2-relative_error">' '<caption>1 failure</caption>'; do
    grep -qF -- "$text" "$page" || fail "not on the page: $text"
done
[ "$(grep -o '<figure id="[^"]*"' "$page" | sort | uniq -d)" = "" ] || fail "figures that are drawn twice"
grep -qE '<script|<b>bold|<img src=x' "$page" && fail "a text of the cube became part of the page"
grep -q '<title>A title &amp; more</title>' "$work/one/report.html" || fail "the title"
[ -s "$work/two/1-relative_error.pdf" ] && [ -s "$work/two/2-averages.png" ] || fail "figures beside the page: $(ls "$work/two")"

# what the first figure does not show has figures of its own; replicates and methods are told of where there are some
check "the first figure, its error bars, or the first sentence" "$CUBES/two_models.h5" "$CUBES/one.h5" "$CUBES/averages.h5" <<'PY'
import sys
import qtraj
from qtraj.cube import files
from qtraj.figures.figure import REPLICATED
from qtraj.report import answer, page
several, one = map(qtraj.open, sys.argv[1:3])
found = {"models": ["SmolLM3-3B", "cooldown of it"], "bits": [3], "dataset": str(several.dataset.values[0])}
parts = [(list(part.model.values), some, part.attrs["told"]) for part, some in answer.others(several, found, None)]
others = [str(name) for name in several.model.values if name not in found["models"]]
widths = files.widths(several, None)
left = [width for width in widths if width != 3]
assert parts == [(found["models"], left, {"bits": [f"{width} bits" for width in left]}), (others, widths, {"model": others})], parts
assert answer.others(several, found | {"models": list(several.model.values), "bits": widths}, None) == []
caption = qtraj.figures.relative_error.caption
assert REPLICATED in caption.bars and page.bars_of(caption, answer.replicated(one)) == caption.bars and REPLICATED not in page.bars_of(caption, answer.replicated(several))
text = answer.of_cube(several, {"config": {}, "inputs": {}}, None)["sentences"][0]
assert all(f"with {name} (" in text for name in several.quantizer.values), text

# while a later checkpoint of a phase is pending, its end is the last that is measured
import numpy as np
names, branch = list(several.model.values), qtraj.trajectories(several)[1]
phase = np.full((len(names), several.sizes["checkpoint"]), "stable", object)
phase[names.index(branch.model)] = "decay"
loss = several.loss_relative.copy(deep=True)
loss.loc[{"model": branch.model, "checkpoint": several.checkpoint[branch.places[-1]]}] = np.nan
growing = several.assign(phase=(("model", "checkpoint"), phase), loss_relative=loss,
                         status=np.isfinite(loss.isel(dataset=0, drop=True)).where(np.isfinite(several.loss_relative.isel(dataset=0, drop=True)), 3).astype(int))
found = answer.of_cube(growing, {"config": {}, "inputs": {}}, None)
rows = [row[0] for row in found["table"].rows]
assert f"{branch.model}, last measured of decay" in rows and f"{names[0]}, end of stable" in rows, rows
rate = several.learning_rate.copy(deep=True)  # so is that of a run that stops in the middle of its decay
rate.loc[{"model": branch.model, "checkpoint": several.checkpoint[branch.places[-1]]}] = 0.5 * float(rate.max())
stopped = several.assign(phase=growing.phase, learning_rate=rate)
names = [end.name for end in answer.ends_of(stopped, stopped.isel(dataset=0))]
assert f"{branch.model}, last measured of decay" in names, names
pending = int((growing.status == 0).sum())
assert pending > 0 and found["sentences"][0].startswith(f"{pending} cells are pending: "), found["sentences"]

# a column for each method that is asked for at a width, as many widths as have space; averages stand in the table of their run; what to cite, once
from qtraj.report import summary
asked = several.assign(loss_relative=several.loss_relative.where((several.quantizer != "gptq") | (several.bits != 4)))
assert ([(4, "rtn")] in summary.groups_of(asked, [4]) and summary.groups_of(asked, [3, 4]) == [[(3, "rtn"), (3, "gptq"), (4, "rtn")]]
        and (4, "gptq") not in answer.columns_of(asked, asked.isel(dataset=0), None)), summary.groups_of(asked, [3, 4])
averaged = qtraj.open(sys.argv[3])
(names,) = [[row[0] for row in table.rows] for table in summary.all_results(averaged, [2])]
stored = int((averaged.kind == "stored").sum())
assert names[stored:] == [str(name) for name, kind in zip(averaged.checkpoint_name.values[0], averaged.kind.values[0]) if kind == "average"], names
first, second = summary.Table(["file", "digest"], [["a", "1"], ["b", "2"]]), summary.Table(["file", "digest"], [["a", "1"], ["a", "3"]])
assert page.together([first, None, second]).rows == [["a", "1"], ["b", "2"], ["a", "3"]] and page.together([None]) is None
assert summary.with_error(-50, 1e-6) == "-50" and summary.with_error(-0.0002, 0.003) == "0.000 ± 0.003" and summary.with_error(-0.004, 0.003) == "−0.004 ± 0.003"

# of a merged cube, the commands and the time of all that was merged, and what had no end
runs = {f"2026-01-0{k}T00:00:00Z n1 run a b.yaml --part {k}/8 --retry": f"2026-01-1{k}T00:00:00Z" for k in range(1, 9)}
said = dict(summary.of_run(several, {"command": "run b.yaml", "utc_start": "x", "utc_end": "", "merged": runs}))
assert said["command"] == "qtraj run a b.yaml --part 1/8 to 8/8 --retry; then qtraj merge" and said["time"] == "2026-01-01T00:00:00Z to 2026-01-18T00:00:00Z", said
runs = {"2026-01-01T00:00:00Z n1 run b.yaml --part=3/3": "", "2026-01-02T00:00:00Z n1 run b.yaml --part=1/3": "2026-01-03T00:00:00Z", "2026-01-01T00:00:00Z n2 run b.yaml": ""}
said = dict(summary.of_run(several, {"merged": runs}))
assert said["command"] == "qtraj run b.yaml --part=1/3, 3/3; qtraj run b.yaml; then qtraj merge", said
assert said["time"] == ("2026-01-01T00:00:00Z to 2026-01-03T00:00:00Z; went on when it was merged, or was killed: "
                        "qtraj run b.yaml --part=3/3; qtraj run b.yaml"), said
said = dict(summary.of_run(several, {"command": "run b.yaml", "utc_start": "x", "utc_end": "", "merged": {}}))
assert said["command"] == "qtraj run b.yaml" and said["time"] == "x to now: it goes on, or was killed", said

# steps that differ read differently, also of a run and its branch
line, branch = qtraj.trajectories(several)[:2]
step, names = several.step.values.astype(float), list(several.model.values)
step[names.index(line.model), line.places[-1]], step[names.index(branch.model), branch.places[0]] = 471500, 471503
close = several.assign(step=(several.step.dims, step))
labels = [label for one in qtraj.trajectories(close)[:2] for label in qtraj.cube.trajectories.checkpoint_labels(close, one)]
assert {"471.5k", "471.503k"} <= set(labels), labels

# each fit has a sentence, with its factors
from qtraj.laws import tables
from qtraj.report import sentences
points = qtraj.points(sys.argv[1])
found = qtraj.laws.fit_all(points[points.quantizer == "gptq"].reset_index(drop=True), draws=0)
said = {block.rows[0][0]: text for block in tables.blocks(found) if block.kind == "table" and (text := sentences.of_block(block, found, "gptq, wikitext"))}
assert [any(head.startswith(begin) for head in said) for begin, _, _ in sentences.OF_TABLES] == [True] * 6, said
target = [block for block in tables.blocks(found) if block.kind == "table" and block.rows[0][0].startswith("tokens until")][0]
assert sentences.mark_outside(target.rows, points) and sentences.of_block(target, found, "gptq, wikitext").endswith("(†)"), target.rows
assert "by " in sentences.of_effects({"tokens and learning rate": "no", "tokens alone": found["tokens or learning rate"]["tokens alone"]})
from qtraj.laws.all_fits import law_of
assert law_of(points[points.quantizer == "gptq"].assign(delta=-1.0).reset_index(drop=True), 0) == "there is no usable point"
fit = found["token law"]["gptq, wikitext"]["robust"]
assert any(f"added loss (nats a token) by {2 ** fit.coefficients['beta']:.3g}" in text for text in said.values()), said
PY

# a change of the relative error is paired to first order (jackknife over sequences); what the options of methods are
"$QTRAJ" methods >"$work/methods"
check "paired changes, or options of methods" "$work/methods" <<'PY'
import re, sys
import numpy as np
from qtraj.cube.paired import relative_change
from qtraj.cube.trajectories import compact
from qtraj.report import options, summary
rng = np.random.default_rng(0)
full = 3 + rng.standard_normal(400)
other = full + 0.3 * rng.standard_normal(400)
pairs = (1.05 * full + 0.1 * rng.standard_normal(400), full), (1.02 * other + 0.1 * rng.standard_normal(400), other)
change, error = relative_change(*pairs)
without = [np.subtract(*(np.delete(q, i).mean() / np.delete(f, i).mean() for q, f in pairs)) for i in range(400)]
jackknife = np.sqrt(399 / 400 * np.square(without - np.mean(without)).sum())
assert abs(change - 0.03) < 3 * error and abs(error / jackknife - 1) < 0.01, (change, error, jackknife)
listed, name = {}, ""
for line in open(sys.argv[1]):
    found = re.match(r"(\w+) +bits", line)
    name, inside = (found.group(1), False) if found else (name, inside)
    inside = (inside or "options:" in line) and "presets:" not in line
    listed.setdefault(name, set()).update(line.replace("options:", "").split() if inside else [])
assert listed == options.USED, {name: (listed.get(name), options.USED.get(name)) for name in {*listed, *options.USED} if listed.get(name) != options.USED.get(name)}
assert options.of_method({"method": "rtn", "group_size": 64, "damping": 0.01, "replicates": 3, "mixing": "none", "symmetric": True}) == "group size 64, symmetric, replicates 3"
assert (options.of_method({"method": "none", "damping": 0.01, "activations": {"bits": 8, "clip": 0.9, "symmetric": True, "rotation": "none"}})
        == "activations: bits 8, clip 0.9, symmetric")
assert summary.step_text(471500) == "471,500" and compact(471503, 6) == "471.503k"
PY

run_checks

# bad input: one line that says what is wrong
echo "no cube" >"$work/no.h5"
cp "$work/no.h5" "$work/x.journal"
"$python" "$SOURCE/tests/tools/refusals.py" "$SOURCE/analysis/report.py" >"$work/found" <<EOF || fail "$(cat "$work/found")"
"no.h5: not a results cube" $work/no.h5 --out $work/none
"gone.h5: not a results cube: there is no such file" $work/gone.h5 --out $work/none
"x.journal: not a results cube but a journal: give $work/x.h5" $work/x.journal --out $work/none
"--compare: the cube has no column size of runs" $CUBES/one.h5 --compare size --out $work/none
"no model is called nobody" $CUBES/one.h5 --model nobody --out $work/none
"--bits 5: there are 3, 4" $CUBES/one.h5 --bits 3,5 --out $work/none
"--fit-bits few: expected positive numbers" $CUBES/one.h5 --fit-bits few --out $work/none
"Not a directory" $CUBES/one.h5 --out $work/no.h5/figures
EOF
finish
