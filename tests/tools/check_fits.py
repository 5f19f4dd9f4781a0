"""Fits points that are made from known laws, with analysis/ in PYTHONPATH:  check_fits.py

Checks the coefficients, how often intervals hold, what is left out, and the texts of the figures."""

import contextlib
import pathlib
import tempfile

import numpy as np
import pandas
import xarray as xr
from statsmodels.stats import meta_analysis

import make_cubes
from figure_texts import text_complaints

import qtraj
from qtraj import figures
from qtraj.laws import added_loss, effects, formulas, full_precision, regression, resampling
from qtraj.laws.added_loss import token_law, token_law_robust
from qtraj.laws.fit import checkpoints_of, uncertainty

SIZES = {"160M": 8.5e7, "410M": 3.0e8, "1B": 8.1e8, "2.8B": 2.5e9, "6.9B": 6.4e9, "12B": 1.13e10}
STEPS = np.array([512, 1e3, 2e3, 4e3, 8e3, 14e3, 24e3, 43e3, 71e3, 98e3])
TRUTH = added_loss.PUBLISHED
EFFECTS = {"ln tokens": 0.1, "ln rate": -0.8}
REPETITIONS, LEAST, MOST = 200, 182, 198  # 95 % of 200, give or take 4 %


def exact_points():
    """The law of arXiv 2411.17691 with its published coefficients, and a learning rate that falls as a cosine."""
    rows = [(name, name, f"step{int(step)}", n, step * 2097152, bits, 0.1 + 0.45 * (1 + np.cos(np.pi * step / 143e3)), 3.0,
             float(added_loss.value(TRUTH, n, step * 2097152, bits))) for name, n in SIZES.items() for step in STEPS for bits in (2, 3, 4)]
    frame = pandas.DataFrame(rows, columns=["model", "family", "checkpoint", "parameters", "tokens", "bits", "learning_rate", "loss", "delta"])
    return frame.assign(quantizer="gptq", dataset="t", phase="", trace=np.nan, sharpness=np.nan, distance=np.nan)


EXACT = exact_points()


def made_points(rng, noise, families=SIZES):
    """Those points of some runs, with noise of the logarithm of the added loss."""
    points = EXACT[EXACT.family.isin(families)].reset_index(drop=True)
    points["delta"] *= np.exp(noise * rng.standard_normal(len(points)))
    return points.assign(delta_stderr=0.02 * points.delta, delta_deviation=np.nan, relative=points.delta / 3)


def with_effects(rows, rng, shared):
    """Relative errors with known effects, a level for each run and width, and noise: of a point, of a checkpoint (all of its
    widths), and of `shared`, a column."""
    level = rows.family.map({name: i for i, name in enumerate(SIZES)})
    greatest = rows.groupby("family").learning_rate.transform("max")
    of_group = {label: 0.2 * rng.standard_normal() for label in np.unique(shared)}
    rows["relative"] = np.exp(-7 + 0.5 * level + EFFECTS["ln tokens"] * np.log(rows.tokens)
                              + EFFECTS["ln rate"] * np.log(rows.learning_rate / greatest) - rows.bits
                              + [of_group[label] for label in shared] + 0.05 * rng.standard_normal(len(rows)))
    return rows


def hold(name, counts):
    """counts: by coefficient, how many of the intervals held the truth."""
    print(f"{name}: 95 % intervals hold in", {c: f"{100 * n / REPETITIONS:.1f} %" for c, n in counts.items()})
    for coefficient, count in counts.items():
        assert LEAST <= count <= MOST, (name, coefficient, count)


def test_exact():
    points = made_points(np.random.default_rng(0), 0)
    law = token_law(points, draws=20)
    for fit in (law, token_law_robust(points, law)):
        for name, value in TRUTH.items():
            assert abs(fit.coefficients[name] - value) < 1e-6 * abs(value), (fit.name, name, fit.coefficients)
    at = float(added_loss.value(TRUTH, 8.1e8, 1e11, 3))
    assert abs(added_loss.tokens_needed(law.coefficients, 8.1e8, 3, at) / 1e11 - 1) < 1e-6
    assert np.isnan(added_loss.tokens_needed({"ln k": 0, "beta": -1}, 1e9, 3, 0.1))
    low, high = added_loss.tokens_needed_interval(law, 8.1e8, 3, at)
    assert 0.999e11 < low <= high < 1.001e11, (low, high)


def test_against_statsmodels():
    """Our own code against statsmodels where that has a special case of it: the jackknife that leaves out single points is HC3, means
    have the scatter of Paule and Mandel's iteration, deviations from means are a regression with constants."""
    rng = np.random.default_rng(11)
    points = made_points(rng, 0.3)
    x, y = added_loss.design(points, [])[0], np.log(points.delta.to_numpy())
    error = resampling.jackknife(lambda rows: added_loss.solve(x[rows], y[rows]), np.arange(len(y)))
    assert np.allclose(error, np.sqrt((len(y) - 1) / len(y)) * regression.least_squares(x, y).bse, rtol=1e-7), error
    known = 0.1 + 0.2 * rng.random(len(y))
    scatter = meta_analysis.combine_effects(y, known**2, method_re="iterated", use_t=True).tau2
    weights = regression.weights_beside_scatter(np.ones((len(y), 1)), y, known)
    wanted = 1 / (scatter + known**2)
    assert np.allclose(weights, wanted / wanted.max(), rtol=1e-4), (weights, wanted / wanted.max())
    cell, rate = effects.cells_of(points), np.log(points.tokens.to_numpy())
    constants = np.column_stack([effects.constants_of(cell), rate])
    centred = [regression.within(values, cell, weights) for values in (rate, y)]
    slope = np.linalg.lstsq(*regression.scaled(weights, centred[0][:, None], centred[1]), rcond=None)[0][0]
    assert abs(slope / regression.least_squares(constants, y, weights).params[-1] - 1) < 1e-9


def test_intervals_of_the_law():
    counts = {kind: dict.fromkeys(TRUTH, 0) for kind in ("HC3", "sandwich")}
    for k in range(REPETITIONS):
        points = made_points(np.random.default_rng(k + 1), 0.25)
        first = token_law(points, draws=0)
        del first.intervals["runs left out"]  # which would take six more robust fits; check_laws.py tests it
        for fit in (first, token_law_robust(points, first)):
            for kind in counts.keys() & fit.intervals.keys():
                for name, value in TRUTH.items():
                    counts[kind][name] += fit.intervals[kind][name][0] <= value <= fit.intervals[kind][name][1]
    hold("least squares on logarithms", counts["HC3"])
    hold("robust least squares", counts["sandwich"])


def test_weights():
    """Points of uneven noise, as of short texts and few replicates: the interval holds, and the exponents are nearer to the truth
    than if all points counted alike. Points without uncertainties do."""
    counts, squares = dict.fromkeys(TRUTH, 0), np.zeros((2, len(TRUTH)))
    for k in range(REPETITIONS):
        rng = np.random.default_rng(3000 + k)
        points = made_points(rng, 0.1)
        loud = rng.random(len(points)) < 0.3
        points["delta_stderr"] = 0.2 * EXACT.delta * loud
        points["delta_deviation"] = 0.25 * EXACT.delta * loud
        points["delta"] += uncertainty(points) * rng.standard_normal(len(points))
        fits = [token_law(points.assign(**without), draws=0) for without in ({}, {"delta_stderr": np.nan, "delta_deviation": np.nan})]
        for name, value in TRUTH.items():
            low, high = fits[0].intervals["HC3"][name]
            counts[name] += low <= value <= high
        squares += [[(fit.coefficients[name] - value) ** 2 for name, value in TRUTH.items()] for fit in fits]
    hold("weighted by uncertainties", counts)
    assert (squares[0] < 0.7 * squares[1]).all(), squares[0] / squares[1]
    # one point that is nothing but noise; weights of the fixed effects and of the predictions have it as well
    points = made_points(np.random.default_rng(4), 0.05)
    law = token_law(points, draws=0).coefficients
    points.loc[7, ["delta", "relative"]] *= 1e-4
    points.loc[7, "delta_stderr"] = 1e4 * points.loc[7, "delta"]
    again = token_law(points, draws=0)
    assert all(abs(again.coefficients[name] - law[name]) < 0.02 for name in ("beta", "alpha", "gamma")), (again, law)
    x = np.column_stack([effects.constants_of(effects.cells_of(points)), np.log(points.tokens)])
    weights = effects.weights_of(points, x)
    # the weights are those of the fit that they give: the iteration has converged
    value, error = points.relative.to_numpy(float), points.delta_stderr.to_numpy(float) / points.delta.to_numpy(float) * points.relative
    known = np.nan_to_num(error.to_numpy(float))
    weights_of = regression.weights_of_logarithms(x, value, known)
    fitted = np.exp(x @ np.linalg.lstsq(*regression.scaled(weights_of, x, np.log(value)), rcond=None)[0])
    again = regression.weights_beside_scatter(x, np.log(value), known / np.minimum(value, fitted))
    assert np.abs(again - weights_of).max() < 1e-8, np.abs(again - weights_of).max()
    assert weights[7] < 0.05 < 0.5 < np.delete(weights, 7).min(), weights


def test_around_zero():
    """Noise of one size, beside which the added losses of 4 bits are nothing: intervals hold, since the fit decides which points have
    logarithms; with the positive points alone they would not."""
    held, alone, effect, sign = dict.fromkeys(TRUTH, 0), 0, dict.fromkeys(EFFECTS, 0), []
    for k in range(REPETITIONS):
        rng = np.random.default_rng(12000 + k)
        points = made_points(rng, 0.1)
        points["delta_stderr"] = 0.03
        points["delta"] += points.delta_stderr * rng.standard_normal(len(points))
        sign.append((points.delta <= 0).mean())
        for name, (low, high) in token_law(points, draws=0).intervals["HC3"].items():
            held[name] += low <= TRUTH[name] <= high
        low, high = token_law(points[points.delta > 0].assign(delta_stderr=np.nan).reset_index(drop=True), draws=0).intervals["HC3"]["beta"]
        alone += low <= TRUTH["beta"] <= high
        rows = made_points(rng, 0)
        rows = with_effects(rows, rng, checkpoints_of(rows))
        rows = rows.assign(delta=3 * rows.relative + 0.0005 * rng.standard_normal(len(rows)), delta_stderr=0.0005)
        fit = effects.fixed_effects(rows.assign(relative=rows.delta / 3), tuple(EFFECTS))
        for name, value in EFFECTS.items():
            low, high = fit.intervals["runs left out"][name]
            effect[name] += low <= value <= high
    assert 0.05 < np.mean(sign) < 0.4 and alone < 0.8 * REPETITIONS, (np.mean(sign), alone)
    hold("around zero, least squares on logarithms", held)
    hold("around zero, fixed effects", effect)


def test_clear_points_stay():
    """Two runs of other levels, between which the law is too low for one: its points that noise cannot have made stay."""
    t = np.tile(np.linspace(0, 3, 6), 2)
    value, error = np.exp(1.5 * t) * np.repeat([1.0, 0.05], 6), np.full(12, 0.08)
    kept, clear = regression.clear_of_zero(np.column_stack([np.ones(12), t]), value, error), value >= 2 * regression.CLEAR * error
    assert kept[clear].all() and clear.sum() == 8 and not kept.all(), (kept, clear)


def test_bootstrap_over_checkpoints():
    """Noise that all widths of a checkpoint share: the bootstrap over checkpoints holds, HC3 would be too narrow."""
    inside, narrow = {"beta": 0, "alpha": 0}, 0
    x = None
    for k in range(REPETITIONS):
        rng = np.random.default_rng(5000 + k)
        points = made_points(rng, 0.05)
        groups = checkpoints_of(points)
        noise = {label: 0.3 * rng.standard_normal() for label in np.unique(groups)}
        y = np.log(points.delta.to_numpy()) + [noise[label] for label in groups]
        if x is None:
            x, names = added_loss.design(points, [])
        found = resampling.bootstrap(lambda rows: added_loss.solve(x[rows], y[rows]), groups, 100, rng)
        least = regression.least_squares(x, y)
        for name in inside:
            low, high = resampling.percentiles(found[:, names.index(name)])
            inside[name] += low <= TRUTH[name] <= high
        low, high = least.conf_int()[1]
        narrow += low <= TRUTH["beta"] <= high
    hold("bootstrap over checkpoints", inside)
    assert narrow < LEAST, narrow


def test_intervals_of_the_effects():
    """With six runs the intervals allow for noise that a run's checkpoints share (here: the early ones, and the late ones),
    with three runs for noise that a checkpoint's points share."""
    three = {name: SIZES[name] for name in ("160M", "1B", "12B")}
    for families, kind in ((SIZES, "runs left out"), (three, "checkpoints left out")):
        counts = dict.fromkeys(EFFECTS, 0)
        for k in range(REPETITIONS):
            rng = np.random.default_rng(9000 + k)
            rows = made_points(rng, 0, families)
            shared = checkpoints_of(rows)
            if kind == "runs left out":
                shared = (rows.family + (rows.tokens > 1e10).astype(str)).to_numpy(str)
            fit = effects.fixed_effects(with_effects(rows, rng, shared), tuple(EFFECTS))
            for name, value in EFFECTS.items():
                low, high = fit.intervals[kind][name]
                counts[name] += low <= value <= high
        hold(f"fixed effects, {kind}", counts)


def test_left_out():
    points = made_points(np.random.default_rng(5), 0.1)
    points.loc[:4, "delta"] = -0.001
    fit = token_law(points, draws=20)
    assert fit.n == len(points) - 5 and any(n.startswith("5 points whose added loss is not positive") for n in fit.notes), fit.notes
    assert set(fit.intervals) == {"HC3", "bootstrap over checkpoints", "runs left out"}
    assert token_law_robust(points, fit).n == len(points)
    one = token_law(points[points.model == "1B"].reset_index(drop=True), draws=20)
    assert "alpha" not in one.coefficients and any(n.startswith("alpha is not fitted") for n in one.notes)
    points = made_points(np.random.default_rng(6), 0.05)
    points.loc[40, "delta"] *= 100
    first = token_law(points, draws=0)
    assert abs(token_law_robust(points, first).coefficients["gamma"] - TRUTH["gamma"]) < 0.1
    points["tokens"] = 20 * points.parameters  # tokens and parameters change together
    try:
        token_law(points, draws=0)
        raise AssertionError("a law that the points do not determine was fitted")
    except ValueError as error:
        assert "change together" in str(error), error


def test_effects():
    """Two variables that change together within every run are told from each other by nothing, and that is said."""
    rows = made_points(np.random.default_rng(7), 0)
    rows["learning_rate"] = 1 / rows.tokens
    found = effects.tokens_or_rate(rows)
    assert "do not vary independently" in found["tokens and learning rate"], found
    assert abs(found["tokens alone"].coefficients["ln tokens"] - TRUTH["beta"]) < 1e-9
    rows.loc[rows.checkpoint == "step98000", "learning_rate"] = 0.0
    fit = effects.fixed_effects(rows, ("ln rate",))
    assert any(n == "18 points without a positive learning rate are left out" for n in fit.notes), fit.notes
    assert effects.fixed_effects(rows, ("rate",)).n == len(rows)


def test_predictions():
    """Curvature predicts unseen runs where it is what the error comes from, and the token law does not."""
    rng = np.random.default_rng(8)
    rows = made_points(rng, 0)
    rows["trace"] = np.exp(5 + 0.5 * rng.standard_normal(len(rows)))
    rows["distance"] = np.exp(1 - 0.5 * rows.bits + 0.1 * rng.standard_normal(len(rows)))
    rows["relative"] = 1e-4 * rows.trace * rows.distance**2 * np.exp(0.05 * rng.standard_normal(len(rows)))
    found = formulas.predictions(rows)
    key = "rms error of ln(relative error)"
    scores = found["scores"]
    assert scores["trace"][key] < 0.08 < 0.3 < scores["token law"][key], scores
    assert abs(scores["trace"]["coefficients"]["ln trace"] - 1) < 0.05 and scores["sharpness"] is None
    assert found["left out at a time"] == "run" and len({score["n"] for score in scores.values() if score}) == 1
    # a run's own points do not change its prediction
    other = rows.copy()
    other.loc[other.model == "1B", "relative"] *= 10
    mine = (found["points"].model == "1B").to_numpy()
    assert np.allclose(formulas.predictions(other)["scores"]["trace"]["predicted"][mine], scores["trace"]["predicted"][mine])


def test_full_precision():
    rng = np.random.default_rng(9)
    rows = made_points(rng, 0.1)
    rows["loss"] = full_precision.full_precision_value(full_precision.PUBLISHED, rows.parameters, rows.tokens)
    found = full_precision.full_precision_law(rows, draws=0).coefficients
    for name, value in full_precision.PUBLISHED.items():
        assert abs(found[name] / value - 1) < 1e-2, (name, found)
    noise = dict(zip(checkpoints_of(rows), np.exp(0.002 * rng.standard_normal(len(rows)))))
    rows["loss"] *= [noise[label] for label in checkpoints_of(rows)]
    fit = full_precision.full_precision_law(rows, draws=60)
    low, high = fit.intervals["bootstrap over checkpoints"]["alpha_D"]
    assert low < 0.399 < high, fit.intervals
    return rows


def test_cubes(folder):
    """A branch is of the family of its run, averages and diverged cells are counted, and the same cube twice counts once."""
    runs = [make_cubes.run("run", 9), make_cubes.run("cooldown", 4, first=3000, branch_of="run"),
            make_cubes.run("cooldown-2", 3, first=5000, branch_of="cooldown")]
    cube = make_cubes.cube_of(runs)
    cube["phase"] = xr.where((cube.checkpoint == 0) & (cube.model == "run"), "warmup", "stable").astype(object)
    kind = cube.kind.copy()
    kind.loc["run", 8] = "average"
    cube["kind"] = kind
    cube["status"] = (1 + 0 * cube.loss_delta.isel(dataset=0, drop=True)).fillna(0)
    cube.loss_delta.loc[dict(model="run", checkpoint=7, bits=3, quantizer="rtn")] = np.inf
    cube.to_netcdf(folder / "one.h5", engine="h5netcdf")
    points = qtraj.points(*[folder / "one.h5"] * 2)
    dropped = points.attrs["left_out"]
    assert set(points.family) == {"run"} and set(points.model) == {"run", "cooldown", "cooldown-2"}
    assert dropped["averages of checkpoints, which are no place of their own in training"] == 8, dropped
    assert dropped["points whose loss is not finite"] == 2 and dropped["points that an earlier file has too"] == 59, dropped
    assert len(points) == 59 and (points.phase == "warmup").sum() == 4
    one = cube.sel(model="cooldown", checkpoint=1, bits=4, quantizer="gptq", dataset="wikitext")
    row = points[(points.model == "cooldown") & (points.tokens == float(one.tokens)) & (points.bits == 4) & (points.quantizer == "gptq")]
    for column, name in (("delta", "loss_delta"), ("loss", "baseline_loss"), ("trace", "trace"), ("distance", "weight_distance"),
                         ("learning_rate", "learning_rate"), ("parameters", "parameters_non_embedding")):
        assert float(row[column].iloc[0]) == float(one[name]), column
    return points


def test_figures(*sets):
    """No text of a figure lies outside it or over another."""
    drawn = set()
    for points in sets:
        found = qtraj.laws.fit_all(points, draws=0)
        for draw in figures.FIT_FIGURES:
            with contextlib.suppress(figures.NoNumbers):
                figure = draw(found, points)
                drawn.add(draw)
                wrong = list(text_complaints(figure))
                assert not wrong, (draw.__name__, wrong)
    assert drawn == set(figures.FIT_FIGURES), drawn


def main():
    test_exact()
    test_against_statsmodels()
    test_intervals_of_the_law()
    test_weights()
    test_around_zero()
    test_clear_points_stay()
    test_bootstrap_over_checkpoints()
    test_intervals_of_the_effects()
    test_left_out()
    test_effects()
    test_predictions()
    sizes = test_full_precision()
    with tempfile.TemporaryDirectory() as folder:
        cube = test_cubes(pathlib.Path(folder))
    test_figures(sizes, cube)


if __name__ == "__main__":
    main()
