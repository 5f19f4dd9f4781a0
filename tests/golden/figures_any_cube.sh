#!/usr/bin/env bash
# Figures of cubes that the quickstart is not like: one model, two unrelated ones, six methods, two texts, 40 checkpoints,
# sharpness that has not converged, surfaces of all kinds. No text outside the canvas or over another, no method missing.
. "$SOURCE/tests/tools/lib.sh"
: "${CUBES:?the cubes that golden.cubes has made}"
need_python h5py numpy scipy statsmodels matplotlib xarray h5netcdf

"$python" -W error::UserWarning "$SOURCE/tests/tools/check_figures.py" "$SOURCE/analysis" "$work/figures" "$CUBES"/*.h5 >"$work/found" ||
    fail "$(cat "$work/found")"
tail -n 1 "$work/found"
for name in one/relative_error two_models/agreement six_methods/validation_loss many/spectral_density many/layer_errors \
    unconverged/curvature two_models/curvature_over_training averages/curvature_over_training surfaces/loss_surface two_datasets/prediction two_datasets/accuracy two_datasets/accuracy_loss averages/accuracy averages/averages averages/bit_widths two_models/frontier many/frontier two_sizes/stored_bytes changes/imitations six_methods/quantized_loss two_models/gradient many/gradient two_models/movement two_models/training many/movement many/movement_layers two_models/weights_over_time many/weights_over_time activations/activation_widths activations/error_parts activations/outliers; do
    [ -s "$work/figures/$name.png" ] || fail "$name was not drawn"
done

# a model that is chosen, one that is not there, and what Spearman's correlation is
"$python" "$SOURCE/analysis/figures.py" "$CUBES/two_models.h5" --out "$work/chosen" --model 'OLMo2*' --only relative_error 2>"$work/err" ||
    fail "--model: $(cat "$work/err")"
"$python" "$SOURCE/analysis/figures.py" "$CUBES/two_datasets.h5" --out "$work/chosen" --dataset 'a-text*' --quantizer gptq --only quantized_loss >"$work/names" 2>"$work/err" ||
    fail "--dataset and --quantizer: $(cat "$work/err")"
"$python" "$SOURCE/analysis/figures.py" "$CUBES/averages.h5" --out "$work/pages" --only curvature --width 3.3 >"$work/names" 2>"$work/err" &&
    [ "$(sed 's|.*/||' "$work/names" | tr '\n' ' ')" = "curvature-1.png curvature-1.pdf curvature-2.png curvature-2.pdf " ] ||
    fail "pages: $(cat "$work/names" "$work/err")"
"$python" "$SOURCE/analysis/figures.py" "$CUBES/one.h5" --out "$work/all" --bits 3 >"$work/names" 2>"$work/err" && head -n 1 "$work/err" | grep -q '^up to [0-9]* figures, .*--only' ||
    fail "all figures: $(cat "$work/err")"
: >"$work/file"
"$python" "$SOURCE/tests/tools/refusals.py" "$SOURCE/analysis/figures.py" >"$work/refused" <<EOF || fail "$(cat "$work/refused")"
"no model is called nobody; there are SmolLM3-3B, cooldown of it, OLMo2-7B, SmolLM3-3B-soup-ingredient-2" $CUBES/two_models.h5 --model nobody --out $work/chosen
"--dataset: no text is called nothing; there are refinedweb, a-text-with-a-rather-long-name" $CUBES/two_datasets.h5 --dataset nothing --out $work/chosen
"--quantizer: no method is called awqq; there are rtn, gptq" $CUBES/two_datasets.h5 --quantizer gptq,awqq --out $work/chosen
"--compare: the cube has no column weight_decay of runs; there are branch_of, checkpoint_name" $CUBES/two_models.h5 --compare weight_decay --out $work/chosen
"$CUBES/one.h5: named twice" $CUBES/one.h5 $CUBES/one.h5 --out $work/chosen
"--out $work/file/figures: Not a directory" $CUBES/two_models.h5 --out $work/file/figures
EOF
check "parts alone and together" "$CUBES/activations.h5" <<'PY'
import sys
import numpy as np
import qtraj
from qtraj.cube.trajectories import families
from qtraj.figures.error_parts import combinations, over_training
from qtraj.cube.paired import rows_of
cube = qtraj.open(sys.argv[1])
found = list(combinations(cube, [4, 16]))
assert [one[1] for one in found] == [("none-a4-kv4", 16), ("rtn-a4-kv4", 4)], found
assert found[1][2] == {"W": ("rtn", 4), "A": ("none-a4", 16), "KV": ("none-kv4", 16)}, found
line = families(cube)[0][0]
of = over_training(line, cube, "wikitext", *found[1][1:], rows_of(cube, "cells"), rows_of(cube, "checkpoints"))
grow = 1 + np.arange(9) / 4
for part, added in (("W", 0.02), ("A", 0.05), ("KV", 0.01), ("sum", 0.08), ("together", 0.088), ("difference", 0.008)):
    assert np.allclose(of[part][:, 0], added * grow), (part, of[part])
assert (of["difference"][:, 1] < 0.15 * of["sum"][:, 1]).all() and (of["sum"][:, 1] > 0).all(), of  # paired: most of the noise is common
PY
check "rank correlation" <<'PY'
import numpy as np
from qtraj.laws.correlation import spearman
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
check "error bars and points of a cube with replicates" "$CUBES/one.h5" "$CUBES/averages.h5" "$CUBES/two_models.h5" "$CUBES/many.h5" "$CUBES/surfaces.h5" <<'PY'
import sys
import numpy as np
import xarray
import qtraj
from figure_texts import text_complaints
from qtraj.cube import accuracy, paired
from qtraj.laws.all_fits import law_of
from qtraj.laws.fit import uncertainty


def bars_of(figure):
    """Half the height of each error bar, and its linewidth."""
    return {(round(float(np.ptp(s[:, 1])) / 2, 7), float(c.get_linewidth()[0]))
            for axes in figure.axes for c in axes.collections for s in c.get_segments() if np.size(s) and np.ptp(s[:, 0]) == 0}


def has(figure, inner, outer, name):
    """Both parts of each error bar are drawn, the outer one thinner."""
    drawn = bars_of(figure)
    widths = [{width for height, width in drawn if np.isclose(height, half, atol=2e-7)} for half in (*inner, *outer)]
    assert all(widths), (name, drawn, inner, outer)
    assert all(0.6 in some for some in widths[len(inner):]), (name, widths)


# every figure of cells with error bars: those over the text, and around them those with the deviation over replicates
cube = qtraj.open(sys.argv[1])
shown = {"relative_error": ("relative", 100), "validation_loss": ("delta", 1), "quantized_loss": ("delta", 1), "methods": ("relative", 100),
         "curvature": ("relative", 100), "bit_widths": ("relative", 100)}
for name, (what, scale) in shown.items():
    stderr, std = (scale * cube[f"loss_{what}{end}"].sel(bits=3, quantizer="gptq").values.ravel() for end in ("_stderr", "_replicate_std"))
    last = slice(-1, None) if name == "bit_widths" else slice(None)
    has(getattr(qtraj.figures, name)(cube, [3, 4]), stderr[last], np.hypot(stderr, std)[last], name)
frame = qtraj.points(sys.argv[1])
gptq = frame[(frame.quantizer == "gptq") & (frame.bits == 3)]
assert np.allclose(uncertainty(gptq), gptq.delta * np.hypot(0.05, 0.3)), gptq
rtn = frame[frame.quantizer == "rtn"]
assert np.allclose(uncertainty(rtn), 0.05 * rtn.delta), rtn
has(qtraj.figures.fit_token_law({"token law": {"gptq, wikitext": law_of(frame[frame.quantizer == "gptq"].reset_index(drop=True), 0)}}, frame),
    gptq.delta_stderr, uncertainty(gptq), "fit_token_law")

# no page is higher than 8.5 inches, each panel is on one, and titles name what differs between pages
from qtraj.figures.pages import pages, part_of
averaged = qtraj.open(sys.argv[2])
whole = qtraj.figures.curvature(averaged, width=3.3)
drawn = pages(qtraj.figures.curvature, averaged, width=3.3)
assert whole.get_figheight() > 8.5 and all(page.get_figheight() <= 8.5 for page, _ in drawn), [page.get_size_inches() for page, _ in drawn]
assert sum(len(page.axes) for page, _ in drawn) == len(whole.axes) == 6, drawn
assert [part_of(part) for _, part in drawn] == ["2 bits, 3 bits", "8 bits"], [part_of(part) for _, part in drawn]
assert [axes.get_title() for axes in drawn[0][0].axes] == 2 * ["2 bits"] + 2 * ["3 bits"], [axes.get_title() for axes in drawn[0][0].axes]
for page, _ in drawn:
    assert not list(text_complaints(page)), list(text_complaints(page))

# a method, a bit-width and a run have one colour in all figures and cubes, whatever stands beside them; a legend lists what is drawn
from qtraj.figures import colours
first, second = colours.of_methods(["rtn", "gptq", "gptq-g64", "mine"]), colours.of_methods(["mine", "awq", "gptq-g64", "gptq", "nf4"])
assert all(first[name] == second[name] for name in ("gptq", "gptq-g64", "mine")), (first, second)
assert len(set(colours.of_methods(colours.METHODS).values())) == len(colours.METHODS) and colours.of_bits(3) == colours.of_bits(np.int64(3)) != colours.of_bits(4)
assert not {colour for colour, _ in colours.of_methods([*colours.METHODS, *map(str, range(30))]).values()} & {colours.BLACK}
runs = colours.of_names([f"run {i}" for i in range(7)])
assert len({colour for colour, _ in runs.values()}) == len({marker for _, marker in runs.values()}) == 7, runs
told = qtraj.select(qtraj.open(sys.argv[3]), bits=3)
part, whole_of = qtraj.select(told, quantizer="gptq", model="*soup*"), (colours.of_quantizers(told), colours.of_models(told))
assert colours.of_quantizers(part) == whole_of[0] and all(colours.of_models(part)[name] == whole_of[1][name] for name in map(str, told.model.values))


def drawn_in(figure, label):
    """Colour and marker of an entry of the legend."""
    (entry,) = [one for one in figure.legends[0].get_lines() if one.get_label() == label]
    return entry.get_color(), entry.get_marker()


for some in (told, part):
    assert drawn_in(qtraj.figures.relative_error(some), "gptq") == drawn_in(qtraj.figures.quantized_loss(some), "gptq") == colours.of_methods(["gptq"])["gptq"]
lost = told.assign(loss_relative=told.loss_relative.where(told.quantizer != "rtn"))
entries = [text.get_text() for text in qtraj.figures.relative_error(lost).legends[0].get_texts()]
assert "gptq" in entries and "rtn" not in entries, entries

import qtraj.figures.place as module
high, module.PAGE_HIGH = module.PAGE_HIGH, 6
drawn = [part_of(part) for _, part in pages(qtraj.figures.loss_surface, qtraj.open(sys.argv[5]), width=3.3)]
module.PAGE_HIGH = high
assert drawn == ["quantization, trajectory", "random"], drawn

# bit-widths and methods stand in the figure also where all panels share them
part = qtraj.select(averaged, bits=3)
assert [axes.get_title() for axes in qtraj.figures.accuracy(part).axes if axes.get_title()] == ["3 bits, wikitext"] + 2 * ["3 bits, social_iqa"]
labels = [axes.get_ylabel().replace("\n", " ") for axes in qtraj.figures.layer_errors(qtraj.select(qtraj.open(sys.argv[4]), bits=3)).axes]
assert "Relative error of gptq" in labels, labels

# averages and branches have markers of their own; a panel without points is left out; an axis that is linear all along says so
line, average = (next(one for lines in qtraj.families(averaged, averages=True) for one in lines if bool(one.average) == wanted) for wanted in (False, True))
branch = next(one for lines in qtraj.families(qtraj.open(sys.argv[3])) for one in lines if one.number)
looks = [qtraj.figures.style.marker_style("#0072B2", one) for one in (line, average, branch)]
assert (looks[1]["fillstyle"], looks[1]["markeredgecolor"], looks[2]["fillstyle"], looks[2]["markeredgecolor"]) == ("left", "#0072B2", "full", "#000000"), looks
lost = qtraj.open(sys.argv[3])
lost = lost.assign(loss=lost.loss.where((lost.bits != 3) | (lost.model != "OLMo2-7B")))
panels, all_panels = (len(qtraj.figures.quantized_loss(one).axes) for one in (lost, qtraj.open(sys.argv[3])))
assert panels == all_panels - 1, (panels, all_panels)
axes = whole.axes[0]
axes.set_yscale("linear")
qtraj.figures.style.signed_log(axes, [-0.4, 0.01, 0.5], [0.6, 0.6, 0.6])
assert axes.get_yscale() == "linear", axes.get_yscale()

# panels side by side have one scale of learning rates, whose numbers stand once
from qtraj.figures.place import Place
place = Place(width=6.8)
figure, panels = place.panels(3)
for axes, peak in zip(panels, (2e-3, 6e-3, 6e-4)):
    qtraj.figures.style.draw_rates(place, axes, [(np.array([0.0, 1.0]), np.array([peak, 0.0]))], 1.0)
place.finish([])
right = [place.rates[axes] for axes in panels]
assert {axes.get_ylim() for axes in right} == {(0, 1.3 * 6e-3)}, [axes.get_ylim() for axes in right]
assert [axes.get_ylabel().replace("\n", " ") for axes in right] == ["", "", "Learning rate ($10^{-3}$)"], [axes.get_ylabel() for axes in right]
assert right[2].yaxis.get_major_formatter()(4e-3) == "4"

# an error that is not told from zero beats greater ones on the frontier, at the most that it may be
from qtraj.figures.frontier import best, cells_at
lost = qtraj.select(qtraj.open(sys.argv[3]), bits=3)
(line,) = [one for one in qtraj.trajectories(lost) if one.model == "SmolLM3-3B"]
lost["loss_relative"] = lost.loss_relative.where(lost.quantizer != "gptq", -1e-9)
x, y, told, names = cells_at(line, len(line.at) - 1, lost.isel(dataset=0))
at = names.index("gptq")
assert not told[at] and told[names.index("rtn")] and np.isclose(y[at], 200 * lost.loss_relative_stderr.sel(model=line.model, bits=3, quantizer="gptq").values.reshape(-1)[line.places[-1]]), y
assert names[best(x, y)[-1]] == "gptq", (x, y, names)

# a figure is laid out by three measurements of its panels at most, and a table of a file is read once, until the file changes
import collections, os
from matplotlib.axes import Axes
from qtraj.cube import files
measure, measured = Axes.get_tightbbox, collections.Counter()
Axes.get_tightbbox = lambda axes, *given, **named: (measured.update([id(axes)]), measure(axes, *given, **named))[1]
figure = qtraj.figures.relative_error(qtraj.open(sys.argv[3]))
assert set(map(id, figure.axes)) <= set(measured) and max(measured.values()) <= 3, measured
Axes.get_tightbbox = measure
surfaces = qtraj.open(sys.argv[5])
rows = qtraj.open_group(surfaces, "surfaces")
before = files.read_group.cache_info().misses
rows["loss"] = 0 * rows.loss
assert (qtraj.open_group(surfaces, "surfaces").loss != 0).all() and files.read_group.cache_info().misses == before
os.utime(sys.argv[5])
assert qtraj.open_group(surfaces, "surfaces") is not None and files.read_group.cache_info().misses == before + 1

# numbers of a logarithmic axis are plain, several where there are few decades, also around zero
from matplotlib.figure import Figure
numbered = Figure()
for values, errors, wanted in (([0.3, 4, 9], [0, 0, 0], "0.5 1 2 5 10"), ([0.001, 3, 40], [0, 0, 0], "0.001 0.01 0.1 1 10"),
                               ([-0.02, 0.004, 0.4], [0.05, 0.05, 0.05], "0 0.05 0.1 0.2"), ([0.001, -0.9, 9], [0.005, 0, 0], "−1 −0.1 −0.01 0 0.01 0.1 1 10")):
    axes = numbered.add_subplot()
    axes.plot(values)
    qtraj.figures.style.signed_log(axes, values, errors)
    low, high = axes.get_ylim()
    shown = [axes.yaxis.get_major_formatter()(at) for at in sorted(axes.yaxis.get_majorticklocs()) if low <= at <= high]
    assert " ".join(shown) == wanted, (shown, wanted)
    numbered.clear()
# two columns of the legend fit below the figure of movement
entries = qtraj.figures.movement(qtraj.open(sys.argv[4]), width=3.3).legends[0]
assert entries._ncols == 2, entries._ncols

# a column of a journal: no text outside, or over another; runs side by side, in order of what is compared
for figure in (*(getattr(qtraj.figures, name)(qtraj.select(cube, bits=3), width=3.3) for name in ("relative_error", "quantized_loss")),
               qtraj.figures.compared(qtraj.select(qtraj.open(sys.argv[3]), bits=3, quantizer="gptq"), "model", width=3.3)):
    assert figure.get_figwidth() == 3.3 and not list(text_complaints(figure)), list(text_complaints(figure))
figure = qtraj.figures.accuracy_loss(averaged, width=3.3)
assert not list(text_complaints(figure)), list(text_complaints(figure))
for axes in figure.axes:  # numbers below a panel do not touch
    labels = [label.get_window_extent() for label in axes.get_xticklabels() if axes.get_xlim()[0] <= label.get_position()[0] <= axes.get_xlim()[1]]
    assert min(right.x0 - left.x1 for left, right in zip(labels, labels[1:])) > 4, [label.get_text() for label in axes.get_xticklabels()]
several = qtraj.open(sys.argv[1], sys.argv[3])
for steps in (1, 25, 1000):  # of narrow panels
    figure = qtraj.figures.validation_loss(several.assign(tokens=np.nan * several.tokens, step=steps * several.step), width=3.3)
    assert not list(text_complaints(figure)), (steps, list(text_complaints(figure)))
low = several.copy(deep=True)  # a branch that has decayed: it has its run's peak, and its own tokens
low.learning_rate.loc["cooldown of it"] = 1e-9
(branch,) = [line for line in qtraj.trajectories(low) if line.model == "cooldown of it"]
run = branch.parent
assert qtraj.figures.value_of(low, branch, "learning_rate") == run.learning_rate[: branch.fork + 1].max() > 1e-9
assert qtraj.figures.value_of(low, branch, "tokens") == branch.at[-1]
figure = qtraj.figures.compared(qtraj.select(several, bits=3, quantizer="gptq"), "parameters_non_embedding", ax=None)
labels = [text.get_text() for text in figure.legends[0].get_texts()]
assert labels[0] == "SmolLM3-3B (one)" and len(labels) == 5, labels
try:
    qtraj.figures.relative_error(cube, ax=figure.axes[0])
    raise AssertionError("two panels in one")
except ValueError as error:
    assert "the figure has 2 panels" in str(error), error

# checkpoints without tokens stand behind all others, in order, on a ground of their own; a star for a soup, phases where asked for
late = qtraj.open(sys.argv[3])
tokens, phase = late.tokens.values.copy(), np.where(late.kind.values == "stored", "stable", "").astype(object)
tokens[0, 7:9], phase[0, 5:7], phase[0, 8] = np.nan, "decay", "soup"
late = late.assign(tokens=(late.tokens.dims, tokens), phase=(late.tokens.dims, phase)).assign_attrs(phases=1)
line = qtraj.trajectories(late)[0]
assert line.late == 2 and len(line.at) == 9 and np.nanmax(tokens) < line.at[7] < line.at[8], line
part = qtraj.select(late, bits=3, model=["SmolLM3-3B"])
figure, line = qtraj.figures.relative_error(part), qtraj.trajectories(part)[0]
assert not list(text_complaints(figure)), list(text_complaints(figure))
entries = [text.get_text() for text in figure.legends[0].get_texts()]
assert {"published soup", "stable", "decay"} <= set(entries) and any("in order: step008000, step009000" in e.replace("\n", " ") for e in entries), entries
stars = [one for one in figure.axes[0].lines if one.get_marker() == "*" and len(one.get_xdata())]
assert len(stars) == 2 and all(np.allclose(one.get_xdata() * 1e9, line.at[8]) for one in stars), stars
figure = qtraj.figures.compared(qtraj.select(late, bits=3, quantizer="gptq"), "step", of="validation_loss")
labels = [axes.get_ylabel() for axes in figure.axes[:2]]
assert labels == ["Loss (nats)", "Added loss (nats)"] and len(figure.axes[0].lines) > 1, labels

# losses that the trajectory tables have stand beside that of full precision
told = late.assign(training_loss=(late.tokens.dims, 2 * np.arange(late.tokens.size, dtype=float).reshape(late.tokens.shape)))
figure, line = qtraj.figures.validation_loss(qtraj.select(told, bits=3, model=["SmolLM3-3B"])), qtraj.trajectories(told)[0]
assert any(len(one.get_ydata()) and np.array_equal(one.get_ydata(), line.own(told.training_loss)) for one in figure.axes[0].lines), figure.axes[0].lines
assert "in training" in [text.get_text() for text in figure.legends[0].get_texts()]
assert not list(text_complaints(figure)), list(text_complaints(figure))

# curves of training: losses of a run and its branch above, the errors of one method, or of those that are chosen, below; none where the cube has none
cube = qtraj.open(sys.argv[3])
curves, figure = qtraj.open_group(cube, "training_curves"), qtraj.figures.training(cube, width=3.3)
above, below = figure.axes[:2]
own = {name: curves.training_loss.values[curves.model.values == name] for name in ("SmolLM3-3B", "cooldown of it")}
assert all(any(np.array_equal(one.get_ydata(), loss) for one in above.lines) for loss in own.values()), above.lines
errors = 100 * qtraj.trajectories(cube)[0].own(cube.loss_relative.sel(bits=4, quantizer="gptq").isel(dataset=0))
assert any(np.array_equal(one.get_ydata(), errors) for one in below.lines), below.lines
assert len(qtraj.figures.training(qtraj.select(cube, quantizer="*")).axes) == 2 * len(figure.axes)  # of each method that is chosen
rates = figure.axes[2].lines[0].get_ydata()
assert np.allclose(rates, curves.learning_rate.values[curves.model.values == "SmolLM3-3B"]), rates
assert not list(text_complaints(figure)), list(text_complaints(figure))
assert qtraj.figures.training.lacks(cube).startswith("without SmolLM3-3B-soup-ingredient-2, OLMo2-7B: no steps.csv"), qtraj.figures.training.lacks(cube)
assert qtraj.figures.training.lacks(qtraj.select(cube, model=["SmolLM3-3B", "cooldown of it"])) == qtraj.figures.training.lacks(averaged) == ""
try:
    qtraj.figures.training(qtraj.open(sys.argv[1]))
except qtraj.figures.NoNumbers as error:
    assert "no curves of training" in str(error), error
else:
    raise AssertionError("curves of a cube without any")

# accuracies: both bars of the loss, the paired ones of the degradation; these are right to first order (jackknife over items)
cube = accuracy.with_errors(qtraj.open(sys.argv[2]))
bars = 100 * accuracy.degradation_stderr(cube).isel(task=0).sel(bits=2, quantizer="gptq").values.ravel()
stderr, std = (100 * cube[f"loss_relative{end}"].sel(bits=2, quantizer="gptq").values.ravel() for end in ("_stderr", "_replicate_std"))
assert np.isfinite(bars).all() and (bars > 0.1).all(), bars
has(qtraj.figures.accuracy(cube, [2]), np.append(stderr, bars), np.hypot(stderr, std), "accuracy")
has(qtraj.figures.accuracy_loss(cube, [2]), bars, [], "accuracy_loss")
rng = np.random.default_rng(0)
before = rng.random(500) < 0.7
after = np.where(rng.random(500) < 0.2, ~before, before)
lost, gained, wrong = (before > after).sum(), (after > before).sum(), (~before).sum()
one = xarray.Dataset({"items": 500, "items_lost": lost, "items_gained": gained, "baseline_accuracy": before.mean()})
without = (lost - gained - before + after.astype(int)) / (wrong - ~before)
jackknife = np.sqrt(499 / 500 * ((without - without.mean()) ** 2).sum())
assert abs(float(accuracy.degradation_stderr(one)) / jackknife - 1) < 0.01, (accuracy.degradation_stderr(one), jackknife)

# the change of an average: its deviation is that of the difference, replicate by replicate
cube = qtraj.open(sys.argv[2])
line = [line for lines in qtraj.families(cube, averages=True) for line in lines if line.average][0]
rows = paired.rows_of(cube, "checkpoints"), paired.rows_of(cube, "cells")
(_, _, _, of), = paired.changes(cube, line, [2, 3], *rows)
places = paired.last_member(line)
added = cube.loss_delta.sel(bits=2, quantizer="gptq").isel(model=0, dataset=0).values[list(places)]
_, error, whole = of["gptq"][0]
assert np.isclose(whole, np.hypot(error, 0.3 * abs(added[0] - added[1]))) and np.isnan(of["gptq"][1][2]) and np.isnan(of["rtn"][0][2]), of
has(qtraj.figures.averages(cube, [2, 3]), [error], [whole], "averages")
PY

# single weights: what the panels show is numpy's of the table, and the first checkpoint has what the second says of it
check "single weights" "$CUBES/many.h5" <<'PY'
import sys
import numpy as np
import qtraj
cube = qtraj.open(sys.argv[1])
table = qtraj.open_group(cube, "movement_weights")
names = [str(name) for name in cube.checkpoint_name.values[0]]
row = {(str(name), int(bits), int(at)): k for k, (name, bits, at) in enumerate(zip(table.checkpoint_name.values, table.bits.values, table.element.values))}
places = sorted({at for _, _, at in row})
get = lambda name, checkpoint, bits=3: np.array([float(table[name].values[row[checkpoint, bits, at]]) for at in places])
left, right = qtraj.figures.weights_over_time(cube, width=3.3).axes[:2]
lines = [line for line in left.lines if len(line.get_ydata()) == len(names)]
weights, rounded = [line.get_ydata() for line in lines if line.get_linestyle() == "-"], [line.get_ydata() for line in lines if line.get_marker() == "_"]
assert len(weights) == len(rounded) == 5
for y, q in zip(weights, rounded):
    at = np.flatnonzero(get("weight", names[-1]) == y[-1])
    assert len(at) == 1 and y[0] == get("weight_before", names[1])[at[0]] and np.isnan(q[0]), (y, q)
    assert all(y[k] == get("weight", name)[at[0]] and q[k] == get("weight_rounded", name)[at[0]] for k, name in enumerate(names) if k)
curves = [line.get_ydata() for line in right.lines if len(line.get_ydata()) == len(names) - 1]
wanted = [[np.median(np.abs(size(name))) for name in names[1:]] for size in (
    lambda name: get("weight", name) - get("weight_before", name), lambda name: get("weight_rounded", name) - get("weight", name),
    lambda name: get("weight_rounded", name, 4) - get("weight", name, 4))]
for y, truth in zip(curves[:3], np.array(wanted)):
    assert np.allclose(y, np.where(truth > 0, truth, np.nan), rtol=1e-12, equal_nan=True), (y, truth)
PY

# planes of one kind of two runs, of two cubes that call them alike, share the colour scale; others have their own
check "surfaces of two runs" "$CUBES/surfaces.h5" "$work/other.h5" <<'PY'
import shutil
import sys
import h5py
import numpy as np
import qtraj
shutil.copy(sys.argv[1], sys.argv[2])
with h5py.File(sys.argv[2], "r+") as file:
    file["model"][:] = b"another" if file["model"].dtype.kind == "S" else "another"
    group = file["surfaces"]
    keep = group["surface"].asstr()[:] != "random"
    group["model"][:] = np.where(keep, "another", "nobody").astype(object)
    group["loss"][:] = 2 * group["loss"][:]
mesh = lambda *paths: [axes.collections[0].get_clim() for axes in qtraj.figures.loss_surface(qtraj.open(*paths)).axes if axes.get_xlabel()]
alone, other, both = mesh(sys.argv[1]), mesh(sys.argv[2]), mesh(*sys.argv[1:3])
assert len(alone) == 3 and len(other) == 2 and len(both) == 5, (alone, other, both)
shared = [(a[0], b[1]) for a, b in zip(alone, other)]
assert np.allclose(both, [*shared, alone[2], *shared]), (alone, other, both)
PY

# bytes of the weights, and which models none with as few bytes beats; runs of one size have no such figure
check "stored bytes" "$CUBES/two_sizes.h5" "$CUBES/two_models.h5" <<'PY'
import sys
import numpy as np
import qtraj
cube = qtraj.open(sys.argv[1])
loss, accuracy = qtraj.figures.stored_bytes(cube, width=3.3).axes[:2]
last = cube.isel(checkpoint=-1, dataset=0)
for axes, full, quantized, sign in ((loss, last.baseline_loss, last.loss, 1), (accuracy, 100 * last.baseline_accuracy_mean, 100 * last.accuracy_mean, -1)):
    truth = set()
    for model, inner, all_of_it in (("OLMo2-1B", 1e9, 1.4e9), ("OLMo2-7B", 6.5e9, 1.1 * 6.5e9)):
        truth.add((round(2 * all_of_it), round(float(full.sel(model=model)), 9)))
        for cell in (dict(model=model, bits=b, quantizer=q) for b in (2, 3, 4) for q in ("rtn", "gptq")):
            truth.add((round(inner * float(last.bits_per_weight.sel(cell)) / 8 + 2 * (all_of_it - inner)), round(float(quantized.sel(cell)), 9)))
    *points, front = [line for line in axes.lines]
    drawn = {(round(x), round(y, 9)) for line in points for x, y in zip(*line.get_data())}
    assert drawn == truth, (drawn ^ truth)
    wanted = {(x, y) for x, y in truth if not any(a <= x and sign * b <= sign * y and (a, b) != (x, y) for a, b in truth)}
    assert {(round(x), round(y, 9)) for x, y in zip(*front.get_data())} == wanted, wanted
try:
    qtraj.figures.stored_bytes(qtraj.open(sys.argv[2]))
    raise AssertionError("drawn of one size")
except qtraj.figures.NoNumbers:
    pass
PY

# the legend names the branches whose movement is drawn, and no others
check "the legend of movement" "$CUBES/two_models.h5" <<'PY'
import sys
import numpy as np
import qtraj
cube = qtraj.open(sys.argv[1]).copy(deep=True)
branches = [line.model for lines in qtraj.families(cube) for line in lines if line.number]
named = lambda: " ".join(text.get_text() for text in qtraj.figures.movement(cube).legends[0].get_texts()).replace("\n", " ")
assert f"branch {branches[0]}" in named(), named()
for name in ("movement", "movement_in_steps", "movement_relative", "movement_quantized_relative"):
    cube[name].loc[{"model": branches[0]}] = np.nan
assert f"branch {branches[0]}" not in named() and "all weights" in named(), named()
PY

run_checks

# docs/figures.md names figures, sweeps and commands that there are
mkdir -p "$work/page"
PYTHONPATH=$SOURCE/analysis "$python" "$SOURCE/tests/tools/check_figures_page.py" "$SOURCE" "$work/page" || fail "docs/figures.md"
finish
