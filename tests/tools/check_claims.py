"""Claims on runs that are made from known effects, with analysis/ in PYTHONPATH:  check_claims.py [--long]

How often 95 % intervals hold the truth, how often claims that are true are supported, and how often those that are false by as little as
can be; the table of docs/fits.md. --long: 200 repetitions instead of 12."""

import sys
import zlib

import numpy as np
import pandas
import xarray as xr
from scipy import optimize

import qtraj
from qtraj.claims import CLAIMS, Rule, claim, curves
from qtraj.claims.data import Data, Run, data_of

LONG = "--long" in sys.argv
REPETITIONS = 200 if LONG else 12
LEAST, MOST = (0.91, 0.99) if LONG else (0.66, 1.0)  # of intervals that hold: 95 % give or take 4 %
FALSE = 0.05 if LONG else 0.17  # of false claims that are supported, at most
RUNS, BITS, TEXTS = 6, (3, 4), ("a", "b")
CAUSE, BEST = ("gptq", "noise", "permuted"), ("gptq", "trellis", "e8p")
STEPS, COOLDOWNS = np.arange(1, 9), np.array([3, 5])  # tokens in 10^9 of a run's checkpoints and of its cooldowns' ends
BY_NAME = {one.name: one for one in CLAIMS}
TABLE = {}  # by claim: how often the interval holds where it is true and where it is false, and how often it is supported


def made(rng, constant=0.0, decay=1.0, peak=-0.5, size=-0.2, budget=0.0, branch=0.4, differ=0.2, imitated=0.0, floor=None, widths=BITS,
         methods=("gptq",), texts=("a",), per_bit=1.5, decaying=0.0, cosine=0.0, at_loss=None):
    """Data of runs with a constant rate, a decay at the end, and two branches that decay before. In logarithms of tokens the error's slope
    is `constant` and, in a decay, `decay` more; `branch`: what a decay adds at its end; `budget`: slope of the ends; `peak`, `size`: slopes
    over runs; `imitated`: what the slope of methods but gptq and rtn lacks; `per_bit`: fall with the bit-width; `decaying`, `cosine`: effects of
    weight decay and schedule; at_loss: slope on the full-precision loss, which falls further in runs with greater peaks. All of these differ
    between runs by `differ`. floor: standard error of the relative error at 10^9 tokens, with noise as large that falls with the root of the
    tokens; at 4 bits errors are around zero."""
    runs, columns = [], {"weight_decay": [], "schedule": []}
    cells = [(method, float(width), text) for method in sorted(methods) for width in widths for text in texts]
    imitates, width_of = (np.array(one) for one in zip(*((cell[0] not in ("gptq", "rtn"), cell[1]) for cell in cells)))
    of_method = [sorted(methods).index(cell[0]) for cell in cells]
    for i in range(RUNS):
        a, b, c, d, e, f, level = (differ * rng.standard_normal(7)) * (1, 1, 1, 1, 0.3, 0.5, 1)
        n, top = 10 ** rng.uniform(8, 10), 10 ** rng.uniform(-4, -2.5)
        columns["weight_decay"].append(0.1 * i)
        columns["schedule"].append("cosine" if i % 2 else "wsd")
        start = -3 + peak * np.log(top / 1e-3) + size * np.log(n / 1e9) + level + decaying * 0.1 * i + cosine * (i % 2)
        main = start + (constant + a) * np.log(STEPS) + (decay + b) * np.log(np.maximum(STEPS / 6, 1))
        ends = start + (constant + a) * np.log(COOLDOWNS) + branch + c + (budget + d - constant - a) * np.log(COOLDOWNS / 3)
        steps = np.concatenate([STEPS, COOLDOWNS])
        model = np.array([f"run{i}"] * len(STEPS) + [f"run{i}-cooldown{k - 1}" for k in COOLDOWNS])
        order = np.lexsort((model, steps))
        loss = np.full(len(steps), 3.0)
        y = np.concatenate([main, ends])
        if at_loss is not None:
            loss = 4 - (0.9 + 0.1 * np.log(top / 1e-3)) * np.log(steps) / np.log(8)
            y = start + at_loss * (loss - 3) + 0 * y
        y = np.tile(y[:, None], len(cells)) + 0.001 * rng.standard_normal((len(steps), len(cells)))
        own = (imitated + 0.3 * differ * rng.standard_normal(len(methods)))[of_method] * imitates
        y -= np.log(steps)[:, None] * own + (per_bit + f) * width_of
        noise = np.full(len(steps), np.nan) if floor is None else floor / np.sqrt(steps)
        error = np.exp(y) + (0.0 if floor is None else noise[:, None] * rng.standard_normal(y.shape))
        noise = 0.02 * np.abs(error) if floor is None else np.tile(noise[:, None], len(cells))
        at_peak = (steps <= 6) & (np.arange(len(steps)) < len(STEPS))
        run = Run(f"run{i}", model, 1e9 * steps, top, at_peak, ~at_peak, ~at_peak, n, cells, [(16, 16, 16)] * len(cells), error, noise, np.tile(loss[:, None], len(cells)), {})
        runs.append(rows_of(run, order))
    cube = xr.Dataset({name: ("model", np.array(values, dtype=object)) for name, values in columns.items()}, {"model": [run.name for run in runs]})
    return Data(runs, cube)


def rows_of(run, order):
    """The run with its rows in this order."""
    for name in ("model", "tokens", "constant", "decaying", "ended", "error", "noise", "loss"):
        setattr(run, name, getattr(run, name)[order])
    return run


def points_of(data):
    """The points (qtraj.points) of such data."""
    rows = [(run.model[k], run.name, f"{run.model[k]}-{run.tokens[k]:g}", run.parameters, run.tokens[k], width,
             run.peak if run.constant[k] else 0.0 if run.model[k] != run.name else run.peak * (8 - run.tokens[k] / 1e9) / 2, method, text,
             run.error[k, c], run.noise[k, c] * run.loss[k, c], run.loss[k, c])
            for run in data.runs for k in range(len(run.tokens)) for c, (method, width, text) in enumerate(run.cells)]
    frame = pandas.DataFrame(rows, columns=["model", "family", "checkpoint", "parameters", "tokens", "bits", "learning_rate", "quantizer", "dataset",
                                            "relative", "delta_stderr", "loss"])
    nothing = dict.fromkeys(("sharpness", "distance", "delta_deviation", "second_order", "trace"), np.nan)
    return frame.assign(delta=frame.relative * frame.loss, phase="", **nothing)


def exact(name, **effects):
    """The estimate from runs that do not differ."""
    return BY_NAME[name].measure(made(np.random.default_rng(0), **{**effects, "differ": 0.0, "floor": None})).value


def edge(name, parameter, **given):
    """The value of a parameter of made() with which the estimand is 0.1, where a claim of no change begins to be false."""
    return optimize.brentq(lambda value: exact(name, **{**given, parameter: value}) - 0.1, -1, 3)


def repeat(truths, make, true):
    """By claim: how often its interval holds the truth, and how often it is supported and against, over repetitions of make(rng). true: whether
    the claims are, for the table; None: neither by far nor by little."""
    counts = {name: np.zeros(3) for name in truths}
    for k in range(REPETITIONS):
        data = make(np.random.default_rng([k, zlib.crc32(f"{list(truths)}, {true}".encode())]))
        for name, truth in truths.items():
            found = BY_NAME[name].measure(data)
            verdict = BY_NAME[name].rule.verdict(found)
            counts[name] += (found.low <= truth <= found.high, verdict == claim.SUPPORTED, verdict == claim.AGAINST)
    shares = {name: count / REPETITIONS for name, count in counts.items()}
    for name, (held, supported, against) in shares.items():
        print(f"{name}: interval holds in {held:.1%}, supported in {supported:.1%}, against in {against:.1%}", flush=True)
        assert LEAST <= held <= MOST, (name, held)
        if true is not None:
            TABLE.setdefault(name, {})[true] = held, supported
            assert supported > 0.6 if true else supported <= FALSE, (name, supported)
    return shares


def effects(truths, true, **given):
    """repeat() of runs with these effects. A truth of None: what runs that do not differ give."""
    return repeat({name: exact(name, **given) if truth is None else truth for name, truth in truths.items()}, lambda rng: made(rng, **given), true)


def test_true():
    """Claims that are true by far are supported; every interval holds as often as it says."""
    effects({"decay-rises": None, "decay-steeper": None, "rate-not-tokens": None, "peak-rate": -1.5}, True, decay=3.0, branch=1.5, peak=-1.5, differ=0.1)
    effects({"constant-flat": 0.0, "budget-free": None, "size-lowers": -1.0, "bits-lower": None}, True, size=-1.0, peak=0.0, decay=1.39, differ=0.03)
    effects({"cause-noise": 0.0, "cause-permuted": 0.0}, True, differ=0.03, methods=CAUSE)
    effects({"decay-trellis": 0.0, "decay-e8p": 0.0}, True, differ=0.03, methods=BEST)
    effects({"weight-decay": -6.0, "tokens-raise": None}, True, decaying=-6.0, constant=0.5, peak=0.0, size=0.0, differ=0.1)
    effects({"cosine": 1.5}, True, cosine=1.5, peak=0.0, size=0.0, differ=0.1)
    effects({"peak-rate-matched": -1.5}, True, at_loss=-2.0, peak=-1.5, differ=0.1)


def test_false():
    """Claims that are false by as little as can be are rarely supported, and those that are false by far are called so."""
    at_the_edge = {"decay-rises": 0.0, "decay-steeper": 0.0, "rate-not-tokens": 0.0, "peak-rate": 0.0, "size-lowers": 0.0, "weight-decay": 0.0,
                   "cosine": 0.0, "tokens-raise": None, "bits-lower": 0.0}
    effects(at_the_edge, False, decay=0.0, branch=0.0, peak=0.0, size=0.0, per_bit=0.0)
    effects({"peak-rate-matched": 0.0}, False, at_loss=-2.0, peak=0.0)  # at the end of training greater peaks have greater errors
    for names, parameter, given in ((["constant-flat"], "constant", {}), (["budget-free"], "decay", {}),
                                    (["cause-noise", "cause-permuted"], "imitated", {"methods": CAUSE}),
                                    (["decay-trellis", "decay-e8p"], "imitated", {"methods": BEST})):
        effects(dict.fromkeys(names), False, **given, **{parameter: edge(names[0], parameter, **given)}, differ=0.05)
    for name, (_, _, against) in effects({"decay-rises": None, "constant-flat": None}, None, branch=-1.5, constant=0.8, decay=-3.8, differ=0.1).items():
        assert against > 0.6, (name, against)


def ranks(rng, between, cells, count=10):
    """Data of runs whose errors of two methods and two texts, or of one cell, and what is measured beside them, have rank correlations: those
    of normal variables with correlation `between`, which differs between runs by 0.2 of its Fisher transformation."""
    runs = []
    for i in range(RUNS):
        rho = np.tanh(np.arctanh(between) + 0.2 * rng.standard_normal())
        root = np.linalg.cholesky([[1, rho], [rho, 1]])
        z = np.einsum("am,kmt,bt->kab", root, rng.standard_normal((count, 2, 2)), root).reshape(count, 4)[:, :cells]
        other = {name: np.exp(rho * z[:, 0] + np.sqrt(1 - rho**2) * rng.standard_normal(count)) for name in ("trace", "sharpness", "distance")}
        other["distance"] = np.tile(other["distance"][:, None], cells)
        names, yes, no = [(method, 3.0, text) for method in ("gptq", "rtn") for text in TEXTS][:cells], np.ones(count, bool), np.zeros(count, bool)
        error = 0.02 * np.exp(0.3 * z)
        runs.append(Run(f"run{i}", np.array([f"run{i}"] * count), np.arange(1.0, count + 1), 1.0, yes, no, no, 1e9, names, [(16, 16, 16)] * cells, error, 0.001 * error, 3 + 0 * error, other))
    return Data(runs)


def with_replicates(data):
    """The same with a cube that has the errors on the second text as those of a replicate on the first."""
    count, axes = len(data.runs[0].tokens), ("model", "checkpoint", "bits", "quantizer", "dataset")
    two = np.array([run.error.reshape(count, 2, 2).transpose(2, 0, 1) for run in data.runs])[:, :, :, None, :, None]  # run, text, checkpoint, bits, method, text
    flat = ("model", "checkpoint"), np.tile(np.arange(1.0, count + 1), (RUNS, 1))
    cube = xr.Dataset({"loss_relative": (axes, two[:, 0]), "loss_relative_stderr": (axes, 0.001 * two[:, 0]), "step": flat, "tokens": flat, "learning_rate": flat,
                       "loss_relative_replicate": (axes + ("replicate",), two[:, 1][..., None]), "kind": (flat[0], np.full((RUNS, count), "stored", dtype=object))},
                      {"model": [run.name for run in data.runs], "checkpoint": np.arange(count)})
    return Data(data.runs, cube)


def rank_truth(between, count=10):
    """The correlation whose transformation is the mean of all runs'."""
    rng = np.random.default_rng(1)
    rho = np.tanh(np.arctanh(between) + 0.2 * rng.standard_normal((20000, 1)))
    x = rng.standard_normal((20000, count))
    y = rho * x + np.sqrt(1 - rho**2) * rng.standard_normal(x.shape)
    x, y = (one.argsort(axis=1).argsort(axis=1) for one in (x, y))  # ranks
    found = 1 - 6 * ((x - y) ** 2).sum(axis=1) / (count * (count**2 - 1))
    return np.tanh(np.arctanh(found * (1 - 1 / count**2)).mean())


def test_ranks():
    """Rank correlations, of which few runs have skewed ones: intervals hold, and correlations of exactly the limit are rarely called higher."""
    curvature = [f"curvature-{name}" for name in ("trace", "sharpness", "distance")]
    same = ["same-methods", "same-texts", "same-calibrations"]
    repeat(dict.fromkeys(curvature, rank_truth(0.8)), lambda rng: ranks(rng, 0.8, 1), True)
    repeat(dict.fromkeys(curvature, 0.0), lambda rng: ranks(rng, 0.0, 1), False)
    repeat(dict.fromkeys(same, rank_truth(0.98)), lambda rng: with_replicates(ranks(rng, 0.98, 4)), True)
    limit = optimize.brentq(lambda between: rank_truth(between) - 0.8, 0.7, 0.95, xtol=1e-4)
    repeat(dict.fromkeys(same, 0.8), lambda rng: with_replicates(ranks(rng, limit, 4)), False)


def averaged(rng, error=0.0, loss=0.0, full=0.0, soup=0.0, differ=0.1):
    """A cube of runs with a constant rate, an average of the run's last two checkpoints, a cooldown, another branch, and a soup of both branches. By
    how much the average's relative error is above its last member's (over the mean of both), its quantized and full-precision losses above
    the cooldown's (nats a token), and the soup's relative error above that of its better ingredient; these differ between runs."""
    shape, names, parents = (3 * RUNS, 4), [], []
    relative, base, step = (np.full(shape, np.nan) for _ in range(3))
    text = {name: np.full(shape, "", dtype=object) for name in ("kind", "average", "recipe", "checkpoint_name")}
    for i in range(RUNS):
        run, branches, names = 3 * i, [f"run{i}-cooldown", f"run{i}-other"], [*names, f"run{i}", f"run{i}-cooldown", f"run{i}-other"]
        parents += ["", f"run{i}", f"run{i}"]
        error_of, loss_of, full_of, soup_of = np.array([error, loss, full, soup]) + differ * rng.standard_normal(4) * (1, 0.2, 0.2, 1)
        one, to = 0.05 * np.exp(0.2 * rng.standard_normal()), {value: (1 + value / 2) / (1 - value / 2) for value in (error_of, soup_of)}
        average = to[error_of] * one
        base[run], base[run + 1:run + 3, 0] = [3.2, 3.1, 3.0, 2.9], 3.0 - full_of
        cooldown = (3.0 * (1 + average) - loss_of) / base[run + 1, 0] - 1
        relative[run], relative[run + 1:run + 3, 0] = [0.9 * one, one, average, to[soup_of] * cooldown], [cooldown, 1.2 * cooldown]
        step[run], step[run + 1:run + 3, 0] = [1.0, 2.0, 2.0, 2.0], 2.0
        text["kind"][run], text["kind"][run + 1:run + 3, 0] = ["stored", "stored", "average", "average"], "stored"
        text["average"][run], text["checkpoint_name"][run] = ["", "", "lawa", "soup"], ["step1", "step2", "lawa@step2", "soup"]
        text["checkpoint_name"][run + 1:run + 3, 0] = "end"
        text["recipe"][run, 2:] = ["average(step1, step2)", f"average({', '.join(f'{name}/end' for name in branches)})"]
    two, cells = ("model", "checkpoint"), ("model", "checkpoint", "bits", "quantizer", "dataset")
    wide, flat = relative[..., None, None, None], base[..., None]
    cube = {"loss_relative": (cells, wide), "loss_relative_stderr": (cells, 0.01 * wide), "loss": (cells, flat[..., None, None] * (1 + wide)),
            "baseline_loss": (two + ("dataset",), flat), **{name: (two, values) for name, values in text.items()},
            **{name: (two, step) for name in ("step", "tokens", "learning_rate")}}
    return xr.Dataset(cube, {"model": names, "branch_of": ("model", np.array(parents, dtype=object)), "checkpoint": np.arange(4), "bits": [3],
                             "quantizer": ["gptq"], "dataset": ["a"]})


def test_averages():
    """Averages against their members and cooldowns, soups against their ingredients."""
    given = {"average-error": "error", "average-cooldown": "loss", "average-full": "full", "soup": "soup"}
    one = Data([], averaged(np.random.default_rng(0), error=-0.3, loss=-0.05, full=0.04, soup=0.2, differ=0.0))
    for name, value in zip(given, (-0.3, -0.05, 0.04, 0.2)):
        found = BY_NAME[name].measure(one)
        assert abs(found.value - value) < 1e-9 and found.n == RUNS, (name, found)
    later = one.cube.copy(deep=True)  # the run goes on behind its cooldowns, with another average at the end
    later = xr.concat([later, later.isel(checkpoint=[2]).assign_coords(checkpoint=[4])], "checkpoint", data_vars="minimal", coords="minimal")
    runs = [str(name) for name, parent in zip(later.model.values, later.branch_of.values) if not parent]
    for name, value in (("checkpoint_name", "lawa@step4"), ("step", 4.0), ("tokens", 4.0)):
        later[name].loc[{"model": runs, "checkpoint": 4}] = value
    later["loss"].loc[{"model": runs, "checkpoint": 4}] += 1.0
    found = BY_NAME["average-cooldown"].measure(Data([], later))
    assert abs(found.value + 0.05) < 1e-9 and found.n == RUNS, found
    names = [str(name).replace("cooldown", "ingredient1").replace("other", "ingredient2") for name in one.cube.model.values]
    soups = one.cube.kind.copy(data=np.where(one.cube.checkpoint_name == "soup", "soup", "").astype(object))
    published = one.cube.drop_vars("recipe").assign_coords(model=names).assign(phase=soups.assign_coords(model=names))
    published["kind"], published["average"] = (published[name].where(published.phase != "soup", value) for name, value in (("kind", "stored"), ("average", "")))
    assert abs(BY_NAME["soup"].measure(Data([], published)).value - 0.2) < 1e-9, "a publisher's soup"
    for true, values in ((True, (-0.3, -0.1, 0.1, -0.3)), (False, (0.0, 0.0, 0.0, 0.0))):
        chosen = dict(zip(given.values(), values))
        repeat(dict(zip(given, values)), lambda rng, of=chosen: Data([], averaged(rng, **of)), true)


def test_few_runs():
    """One run: no interval over runs; over the text where two models are compared, which holds too."""
    held = 0
    for k in range(REPETITIONS):
        rng = np.random.default_rng(k)
        points = points_of(made(rng, branch=0.4, differ=0.0))
        common = rng.standard_normal(points.checkpoint.nunique())  # errors that all cells of a checkpoint share
        points["relative"] *= np.exp(0.02 * common[points.checkpoint.factorize()[0]])
        points["delta"] = 3 * points.relative
        data = data_of(points[points.family == "run0"])
        found = BY_NAME["rate-not-tokens"].measure(data)
        assert found.over == "text" and found.n == 1, found
        held += found.low <= 0.4 <= found.high
    print(f"one run, interval over the text: holds in {held / REPETITIONS:.1%}")
    assert held >= LEAST * REPETITIONS, held
    top = points.groupby("family").learning_rate.transform("max")
    whole, halfway = (BY_NAME["budget-free"].measure(data_of(some)) for some in (points, points.assign(learning_rate=points.learning_rate.clip(lower=0.5 * top))))
    assert np.isfinite(whole.value) and not np.isfinite(halfway.value), (whole, halfway)  # a decay that stops in the middle has no end
    table = qtraj.claims.claims(points[points.family == "run0"]).set_index("name")
    assert table.verdict["decay-rises"] == claim.UNDECIDED and table.reason["decay-rises"] == "1 run: no interval", table.loc["decay-rises"]
    assert table.verdict["rate-not-tokens"] == "supported in this run", table.loc["rate-not-tokens"]
    assert list(table.reason[["average-error", "weight-decay", "curvature-sharpness"]]) == [
        "not measured: needs averages, beside their last members", "not measured: needs 4 runs of two values of the column weight_decay",
        "not measured: needs sharpness at 5 checkpoints"]
    assert all(one.needs for one in CLAIMS)


def slope_over_mean(x, y, of):
    return np.polyfit(x, y, 1)[0] / of.mean()


def test_around_zero():
    """Errors of either sign: intervals hold, false claims are rarely supported, and what cannot be told from zero is counted. Logarithms of
    the positive errors alone would call growth from zero less than it is, and a fall of the noise one of the error."""
    around = {"floor": 1e-4, "widths": (3, 4, 8), "differ": 0.1}
    data = made(np.random.default_rng(3), **around)
    below = np.mean([(run.error[run.constant] <= 0).mean() for run in data.runs])
    assert 0.1 < below < 0.4, below
    true = {"decay-rises": None, "decay-steeper": None, "rate-not-tokens": None, "peak-rate": None, "tokens-raise": None}
    for name, (_, supported, _) in effects(true, None, decay=3.0, branch=1.5, peak=-1.0, constant=0.5, **around).items():
        assert supported > 0.5, (name, supported)
    effects({"constant-flat": 0.0, "budget-free": None, "size-lowers": 0.0, "bits-lower": None}, None, decay=1.0, peak=0.0, size=0.0, **around)
    at_the_edge = {"decay-rises": 0.0, "decay-steeper": 0.0, "rate-not-tokens": 0.0, "peak-rate": 0.0, "size-lowers": 0.0, "tokens-raise": 0.0}
    for name, (_, supported, _) in effects(at_the_edge, None, decay=0.0, branch=0.0, peak=0.0, size=0.0, **around).items():
        assert supported <= FALSE, (name, supported)
    found = qtraj.claims.claims(points_of(data)[lambda frame: frame.bits == 8])
    rises = found.set_index("name").loc["decay-rises"]
    assert rises.reason == "not told from noise" and rises["left out"] == RUNS * 7 and rises.points == 0, rises


def test_values():
    """Each estimate on runs without noise; points give the same data."""
    data = made(np.random.default_rng(1), constant=0.05, decay=2.0, branch=0.7, budget=0.3, peak=-0.4, size=0.0, imitated=0.02, differ=0.0,
                methods=("rtn", *CAUSE), texts=TEXTS)
    again = data_of(points_of(data))
    for one, two in zip(data.runs, again.runs):
        assert one.cells == two.cells and (one.model == two.model).all() and (one.constant == two.constant).all() and (one.decaying == two.decaying).all()
        assert np.allclose(one.error, two.error) and np.allclose(one.noise, two.noise) and one.peak == two.peak
    k = np.arange(1.0, 9)
    main = k**0.05 * np.where(k > 6, k / 6, 1) ** 2
    late = [slope_over_mean(np.log(k[a:b]), main[a:b], main[a:b]) for a, b in ((0, 6), (5, 8))]
    ends = np.array([np.exp(0.7) * end**0.05 * (end / 3) ** 0.25 for end in (3, 5)])
    held = np.array([np.interp(np.log(end), np.log(k[:6]), main[:6]) for end in (3, 5)])
    wanted = {"constant-flat": late[0], "rate-not-tokens": (2 * (ends - held) / (ends + held)).mean(), "peak-rate": -0.4,
              "same-methods": 0.99, "same-texts": 0.99}
    for name, value in wanted.items():
        found = BY_NAME[name].measure(data)
        assert abs(found.value - value) < 0.02 * max(abs(value), 0.1) and found.left_out == 0 < found.points, (name, found, value)
    for name, value in {"decay-rises": 2.05, "decay-steeper": 2.0, "cause-noise": 0.02, "cause-permuted": 0.02}.items():  # to first order
        found = BY_NAME[name].measure(data).value
        assert abs(found - value) < 0.2 * max(abs(value), 0.1), (name, found, value)
    found = BY_NAME["decay-trellis"].measure(made(np.random.default_rng(2), decay=2.0, branch=0.7, imitated=0.5, differ=0.0, methods=BEST)).value
    ends = ((2.0 * np.log(8 / 6), np.log(8 / 6)), (0.7, np.log(3 / 2)), (0.7, np.log(5 / 4)))  # of the error by gptq, and of tokens, in logarithms
    wanted = np.mean([2 * np.tanh((of - 0.5 * tokens) / 2) - 2 * np.tanh(of / 2) for of, tokens in ends])
    assert abs(found - wanted) < 2e-3, (found, wanted)
    found = BY_NAME["size-lowers"].measure(made(np.random.default_rng(2), peak=0.0, size=-0.3, differ=0.0)).value
    assert abs(found + 0.3) < 1e-3, found
    for name, value, effect in (("weight-decay", -2.0, "decaying"), ("cosine", 0.5, "cosine")):
        found = BY_NAME[name].measure(made(np.random.default_rng(2), peak=0.0, size=0.0, differ=0.0, **{effect: value})).value
        assert abs(found - value) < 1e-3, (name, found)


def with_inputs(rng, rise, alike, tokens=0.5, noise=0.15):
    """Runs whose errors of inputs in 4 bits (weights as they are) have in decays a slope of about `rise` more, as has the logarithm of the kurtosis,
    and go with that of weights in 4 bits beyond tokens as far as `alike` says, from 0 to 1. All have the slope `tokens` besides."""
    frame = points_of(made(rng, decay=0.0, branch=0.0, peak=0.0, size=0.0, texts=TEXTS))
    frame = frame[frame.bits == 4].copy()
    at = frame.family + frame.checkpoint
    common, own, other = (dict(zip(at.unique(), noise * rng.standard_normal(at.nunique()))) for _ in range(3))
    decay = np.where(frame.learning_rate < frame.groupby("family").learning_rate.transform("max"), np.log(frame.tokens / 6e9), 0.0)
    trained = tokens * np.log(frame.tokens / 1e9)
    weights = frame.assign(y=trained + alike * rise * decay + at.map(common))
    inputs = frame.assign(y=trained + rise * decay + alike * at.map(common) + (1 - alike) * at.map(own), quantizer="none-a4", bits=16.0, activation_bits=4)
    both = pandas.concat([weights.assign(activation_bits=16), inputs], ignore_index=True)
    both = both.assign(key_bits=16, value_bits=16, relative=np.exp(both.y - 5), outliers=np.exp(rise * np.log(both.tokens / 1e9) + both.family.map(
        dict(zip(both.family.unique(), rng.standard_normal(RUNS)))) + 0.7 * (both.family + both.checkpoint).map(other)))
    return data_of(both.assign(delta=3 * both.relative, delta_stderr=0.06 * both.relative))


def cause_truth(alike):
    """The partial correlation of such errors, without decays, whose transformation is the mean of all runs'."""
    rng, steps, found = np.random.default_rng(2), np.concatenate([STEPS, COOLDOWNS]), []
    for _ in range(4000):
        common, own = 0.15 * rng.standard_normal((2, len(steps)))
        trained = 0.5 * np.log(steps)
        found.append(curves.partial_correlation(trained + common, trained + alike * common + (1 - alike) * own, steps))
    return np.tanh(np.arctanh(np.array(found) * (1 - 1 / len(steps) ** 2)).mean())


def test_inputs():
    """What is said of inputs of linears and of outliers; weights' claims do not count inputs."""
    exact_rise = with_inputs(np.random.default_rng(0), 3.0, 1.0, noise=0.0)
    assert exact_rise.runs[0].cells[2][0] == "none-a4" and list(curves.quantized(exact_rise.runs[0])) == [0, 1]
    rises = {"inputs-rise": BY_NAME["inputs-rise"].measure(exact_rise).value, "outliers-rise": 3.0}
    repeat(rises, lambda rng: with_inputs(rng, 3.0, 1.0), True)
    repeat({"inputs-cause": cause_truth(0.7)}, lambda rng: with_inputs(rng, 0.0, 0.7), True)
    repeat(dict.fromkeys(("outliers-rise", "inputs-rise", "inputs-cause"), 0.0), lambda rng: with_inputs(rng, 0.0, 0.0, tokens=0.0), False)
    ranks = curves.partial_correlation(np.array([1, 2, 3, 4, 5, 7, 6.0]), np.array([2, 1, 3, 4, 5, 7, 6.0]), np.array([1, 2, 3, 4, 5, 6, 7.0]))
    r = [1 - 6 * d / (7 * 48) for d in (2, 2, 4)]  # of the two, and of each with tokens, by the sums of squared differences of ranks
    assert abs(ranks - (r[0] - r[1] * r[2]) / np.sqrt((1 - r[1] ** 2) * (1 - r[2] ** 2))) < 1e-12, ranks


def test_rule():
    found = claim.Found(0.0, -1.0, 1.0, 5)
    assert [Rule(low=low).verdict(found) for low in (-2, 0, 2)] == ["supported", "cannot tell", "against"]
    assert [Rule(-2, 2).verdict(found), Rule(-0.5, 2).verdict(found), Rule(2, 3).verdict(found)] == ["supported", "cannot tell", "against"]
    assert Rule(low=0).verdict(claim.Found(1.0, n=1)) == "cannot tell"


def table():
    """The table of docs/fits.md."""
    yield "|claim|interval holds (%): true/false|supported (%): true/false|"
    yield "|---|---|---|"
    for one in CLAIMS:
        (true, yes), (false, no) = TABLE[one.name][True], TABLE[one.name][False]
        yield f"|`{one.name}`|{100 * true:.1f}/{100 * false:.1f}|{100 * yes:.1f}/{100 * no:.1f}|"


def main():
    test_rule()
    test_values()
    test_few_runs()
    test_inputs()
    test_true()
    test_false()
    test_ranks()
    test_averages()
    test_around_zero()
    print("\n".join(table()))


if __name__ == "__main__":
    main()
