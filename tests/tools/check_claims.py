"""Claims on runs that are made from known effects, with analysis/ in PYTHONPATH:  check_claims.py [--long]

How often 95 % intervals hold the truth, and how often claims that are false by as little as can be are called supported.
--long: 200 repetitions instead of 12."""

import sys

import numpy as np
import pandas
import xarray as xr

import qtraj
from qtraj.claims import CLAIMS, Rule, claim, curves
from qtraj.claims.data import Data, data_of

LONG = "--long" in sys.argv
REPETITIONS = 200 if LONG else 12
LEAST, MOST = (0.91, 0.99) if LONG else (0.66, 1.0)  # of intervals that hold: 95 % give or take 4 %
FALSE = 0.05 if LONG else 0.17  # of false claims that are supported, at most
RUNS, METHODS, BITS, TEXTS = 6, ("gptq", "rtn", "noise", "permuted"), (3, 4), ("a", "b")
BY_NAME = {one.name: one for one in CLAIMS}


def made(rng, constant=0.0, decay=1.0, peak=-0.5, size=-0.2, budget=0.0, branch=0.4, differ=0.2, imitated=0.0, trace=0.0, floor=None,
         widths=BITS):
    """Points of runs with a constant rate, a decay at the end, and two branches that decay before. In logarithms of tokens the error's slope
    is `constant` and, in a decay, `decay` more; `branch`: what a decay adds at its end; `budget`: slope of the ends; `peak`, `size`: slopes
    over runs; `imitated`: what the slope of noise and permuted lacks. All of these differ between runs by `differ`. floor: standard error
    of the relative error at 10^9 tokens, with noise as large that falls with the root of the tokens; at 4 bits errors are around zero."""
    rows = []
    for i in range(RUNS):
        a, b, c, d, e, level = (differ * rng.standard_normal(6)) * (1, 1, 1, 1, 0.3, 1)
        n, top = 10 ** rng.uniform(8, 10), 10 ** rng.uniform(-4, -2.5)
        noise = {method: 0.3 * differ * rng.standard_normal() for method in METHODS}

        def add(model, name, tokens, rate, value):
            for method in METHODS:
                less = (imitated + noise[method]) * np.log(tokens / 1e9) if method in ("noise", "permuted") else 0.0
                rows.extend((model, f"run{i}", f"{model}-{name}", n, tokens, float(width), rate, method, text,
                             value - less - 1.5 * width + 0.001 * rng.standard_normal()) for width in widths for text in TEXTS)

        start = -3 + peak * np.log(top / 1e-3) + size * np.log(n / 1e9) + level
        for k in range(1, 9):
            tokens = 1e9 * k
            rise = (decay + b) * np.log(k / 6) if k > 6 else 0.0
            add(f"run{i}", f"{k}", tokens, top * (1.0 if k <= 6 else (9 - k) / 3), start + (constant + a) * np.log(k) + rise)
        for at in (2, 4):
            end = at + 1
            value = start + (constant + a) * np.log(end) + branch + c + (budget + d - constant - a) * np.log(end / 3)
            add(f"run{i}-cooldown{at}", "end", 1e9 * end, 0.0, value)
    frame = pandas.DataFrame(rows, columns=["model", "family", "checkpoint", "parameters", "tokens", "bits", "learning_rate", "quantizer", "dataset", "y"])
    nothing = dict.fromkeys(("sharpness", "distance", "delta_deviation", "second_order"), np.nan)
    noise = 0.0 if floor is None else floor / np.sqrt(frame.tokens / 1e9)
    frame["relative"] = np.exp(frame.y) + noise * rng.standard_normal(len(frame))
    frame = frame.assign(loss=3.0, delta=3 * frame.relative, phase="", trace=np.exp(rng.standard_normal(len(frame))), **nothing)
    if trace:
        frame["trace"] = np.exp(frame.y.groupby(frame.checkpoint).transform("mean"))
    return frame.assign(delta_stderr=0.02 * frame.delta if floor is None else 3 * noise)


def repeat(truths, **effects):
    """By claim: how often its interval holds the truth (None: what runs that do not differ give), and how often it is supported and against."""
    counts = {name: np.zeros(3) for name in truths}
    exact = data_of(made(np.random.default_rng(0), **{**effects, "differ": 0.0, "floor": None}))
    truths = {name: BY_NAME[name].measure(exact).value if truth is None else truth for name, truth in truths.items()}
    for k in range(REPETITIONS):
        data = data_of(made(np.random.default_rng(10000 + k), **effects))
        for name, truth in truths.items():
            found = BY_NAME[name].measure(data)
            verdict = BY_NAME[name].rule.verdict(found)
            counts[name] += (found.low <= truth <= found.high, verdict == claim.SUPPORTED, verdict == claim.AGAINST)
    shares = {name: count / REPETITIONS for name, count in counts.items()}
    for name, (held, supported, against) in shares.items():
        print(f"{name}: interval holds in {held:.1%}, supported in {supported:.1%}, against in {against:.1%}", flush=True)
        assert LEAST <= held <= MOST, (name, held)
    return shares


def test_true():
    """Claims that are true by far are supported; every interval holds as often as it says."""
    true = {"decay-rises": None, "decay-steeper": None, "rate-not-tokens": None, "peak-rate": -1.5}
    for name, (_, supported, _) in repeat(true, decay=3.0, branch=1.5, peak=-1.5, differ=0.1).items():
        assert supported > 0.6, (name, supported)
    true = {"constant-flat": 0.0, "cause-noise": 0.0, "cause-permuted": 0.0, "size-lowers": -1.0}
    for name, (_, supported, _) in repeat(true, size=-1.0, peak=0.0, differ=0.04).items():
        assert supported > 0.6, (name, supported)


def test_false():
    """Claims that are false by as little as can be are rarely supported, and those that are false by far are called so."""
    at_the_edge = {"decay-rises": 0.0, "decay-steeper": 0.0, "rate-not-tokens": 0.0, "peak-rate": 0.0, "size-lowers": 0.0}
    for name, (_, supported, _) in repeat(at_the_edge, decay=0.0, branch=0.0, peak=0.0, size=0.0).items():
        assert supported <= FALSE, (name, supported)
    for name, (_, supported, _) in repeat({"constant-flat": None, "cause-noise": None}, constant=0.1022, imitated=0.11, differ=0.05).items():
        assert supported <= FALSE, (name, supported)
    for name, (_, _, against) in repeat({"decay-rises": None, "constant-flat": None}, branch=-1.5, constant=0.8, decay=-3.8, differ=0.1).items():
        assert against > 0.6, (name, against)


def test_few_runs():
    """One run: no interval over runs; over the text where two models are compared, which holds too."""
    held = 0
    for k in range(REPETITIONS):
        rng = np.random.default_rng(k)
        points = made(rng, branch=0.4, differ=0.0)
        common = rng.standard_normal(points.checkpoint.nunique())  # errors that all cells of a checkpoint share
        points["relative"] *= np.exp(0.02 * common[points.checkpoint.factorize()[0]])
        points["delta"] = 3 * points.relative
        data = data_of(points[points.family == "run0"])
        found = BY_NAME["rate-not-tokens"].measure(data)
        assert found.over == "text" and found.n == 1, found
        held += found.low <= 0.4 <= found.high
    print(f"one run, interval over the text: holds in {held / REPETITIONS:.1%}")
    assert held >= LEAST * REPETITIONS, held
    table = qtraj.claims.claims(points[points.family == "run0"]).set_index("name")
    assert table.verdict["decay-rises"] == claim.UNDECIDED and table.reason["decay-rises"] == "1 run: no interval", table.loc["decay-rises"]
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
    data = data_of(made(np.random.default_rng(3), **around))
    below = np.mean([(run.error[run.constant] <= 0).mean() for run in data.runs])
    assert 0.1 < below < 0.4, below
    true = {"decay-rises": None, "decay-steeper": None, "rate-not-tokens": None, "peak-rate": None, "tokens-raise": None}
    for name, (_, supported, _) in repeat(true, decay=3.0, branch=1.5, peak=-1.0, constant=0.5, **around).items():
        assert supported > 0.5, (name, supported)
    repeat({"constant-flat": 0.0, "budget-free": None, "size-lowers": 0.0, "bits-lower": None}, decay=1.0, peak=0.0, size=0.0, **around)
    at_the_edge = {"decay-rises": 0.0, "decay-steeper": 0.0, "rate-not-tokens": 0.0, "peak-rate": 0.0, "size-lowers": 0.0, "tokens-raise": 0.0}
    for name, (_, supported, _) in repeat(at_the_edge, decay=0.0, branch=0.0, peak=0.0, size=0.0, **around).items():
        assert supported <= FALSE, (name, supported)
    found = qtraj.claims.claims(made(np.random.default_rng(3), **around)[lambda frame: frame.bits == 8])
    rises = found.set_index("name").loc["decay-rises"]
    assert rises.reason == "not told from zero" and rises["left out"] == RUNS * 2 * 2 * 7 and rises.points == 0, rises


def test_values():
    """Each estimate on runs without noise; columns of the cube; correlations."""
    data = data_of(made(np.random.default_rng(1), constant=0.05, decay=2.0, branch=0.7, budget=0.3, peak=-0.4, size=0.0, imitated=0.02, differ=0.0, trace=1))
    k = np.arange(1.0, 9)
    main = k**0.05 * np.where(k > 6, k / 6, 1) ** 2
    late = [slope_over_mean(np.log(k[a:b]), main[a:b], main[a:b]) for a, b in ((0, 6), (5, 8))]
    ends = np.array([np.exp(0.7) * end**0.05 * (end / 3) ** 0.25 for end in (3, 5)])
    held = np.array([np.interp(np.log(end), np.log(k[:6]), main[:6]) for end in (3, 5)])
    wanted = {"constant-flat": late[0], "rate-not-tokens": (2 * (ends - held) / (ends + held)).mean(), "peak-rate": -0.4,
              "same-methods": 1.0, "same-texts": 1.0, "curvature-trace": 1.0}
    for name, value in wanted.items():
        found = BY_NAME[name].measure(data)
        assert abs(found.value - value) < 0.02 * max(abs(value), 0.1) and found.left_out == 0 < found.points, (name, found, value)
    for name, value in {"decay-rises": 2.05, "decay-steeper": 2.0, "cause-noise": 0.02, "cause-permuted": 0.02}.items():  # to first order
        found = BY_NAME[name].measure(data).value
        assert abs(found - value) < 0.2 * max(abs(value), 0.1), (name, found, value)
    found = BY_NAME["size-lowers"].measure(data_of(made(np.random.default_rng(2), peak=0.0, size=-0.3, differ=0.0))).value
    assert abs(found + 0.3) < 1e-3, found
    rows = [(run.name, 0.01 * i, "cosine" if i % 2 else "wsd") for i, run in enumerate(data.runs)]
    cube = xr.Dataset({"weight_decay": ("model", [row[1] for row in rows]), "schedule": ("model", [row[2] for row in rows])}, {"model": [row[0] for row in rows]})
    for run, (_, decay, schedule) in zip(data.runs, rows):
        run.error *= np.exp(-20 * decay + 0.5 * (schedule == "cosine"))
    data = Data(data.runs, cube)
    for name, value in (("weight-decay", -20), ("cosine", 0.5)):
        one = curves.over_last(curves.column("weight_decay")) if name == "weight-decay" else BY_NAME[name].measure
        other = np.array([run.error[-1].mean() for run in data.runs])
        assert np.isfinite(other).all() and np.isfinite(one(data).value), (name, value)


def with_inputs(rng, rise, alike):
    """Runs whose errors of inputs in 4 bits (weights as they are) have in decays a slope of about `rise`, as has the logarithm of the kurtosis,
    and go with that of weights in 4 bits beyond tokens as far as `alike` says, from 0 to 1. All rise with tokens."""
    frame = made(rng, decay=0.0, branch=0.0, peak=0.0, size=0.0)
    frame = frame[(frame.quantizer == "gptq") & (frame.bits == 4)].copy()
    at = frame.family + frame.checkpoint
    common, own, other = (dict(zip(at.unique(), 0.15 * rng.standard_normal(at.nunique()))) for _ in range(3))
    decay = np.where(frame.learning_rate < frame.groupby("family").learning_rate.transform("max"), np.log(frame.tokens / 6e9), 0.0)
    weights = frame.assign(y=0.5 * np.log(frame.tokens / 1e9) + alike * rise * decay + at.map(common))
    inputs = frame.assign(y=0.5 * np.log(frame.tokens / 1e9) + rise * decay + alike * at.map(common) + (1 - alike) * at.map(own),
                          quantizer="none-a4", bits=16.0, activation_bits=4)
    both = pandas.concat([weights.assign(activation_bits=16), inputs], ignore_index=True)
    both = both.assign(key_bits=16, value_bits=16, relative=np.exp(both.y - 5), outliers=np.exp(rise * np.log(both.tokens / 1e9) + both.family.map(
        dict(zip(both.family.unique(), rng.standard_normal(RUNS)))) + 0.1 * (both.family + both.checkpoint).map(other)))
    return both.assign(delta=3 * both.relative, delta_stderr=0.06 * both.relative)


def test_inputs():
    """What is said of inputs of linears and of outliers: true claims are supported, false ones rarely; weights' claims do not count inputs."""
    held = np.zeros(2)
    for rise, alike, names in ((3.0, 1.0, ("inputs-rise", "outliers-rise", "inputs-cause")), (0.0, 0.0, ("outliers-rise", "inputs-cause"))):
        counts = dict.fromkeys(names, 0)
        for k in range(REPETITIONS):
            data = data_of(with_inputs(np.random.default_rng(k), rise, alike))
            assert data.runs[0].cells[2][0] == "none-a4" and list(curves.quantized(data.runs[0])) == [0, 1]
            for name in names:
                found = BY_NAME[name].measure(data)
                assert found.n == RUNS and found.points, (name, found)
                counts[name] += BY_NAME[name].rule.verdict(found) == claim.SUPPORTED
                if name == "outliers-rise":
                    held += (found.low <= rise <= found.high, 1)
        print(f"rise {rise:g}, alike {alike:g}: supported", {name: f"{count / REPETITIONS:.1%}" for name, count in counts.items()}, flush=True)
        for name, count in counts.items():
            assert count > 0.9 * REPETITIONS if rise else count <= FALSE * REPETITIONS, (name, count)
    assert held[0] >= LEAST * held[1], held
    ranks = curves.partial_correlation(np.array([1, 2, 3, 4, 5, 7, 6.0]), np.array([2, 1, 3, 4, 5, 7, 6.0]), np.array([1, 2, 3, 4, 5, 6, 7.0]))
    r = [1 - 6 * d / (7 * 48) for d in (2, 2, 4)]  # of the two, and of each with tokens, by the sums of squared differences of ranks
    assert abs(ranks - (r[0] - r[1] * r[2]) / np.sqrt((1 - r[1] ** 2) * (1 - r[2] ** 2))) < 1e-12, ranks


def test_rule():
    found = claim.Found(0.0, -1.0, 1.0, 5)
    assert [Rule(low=low).verdict(found) for low in (-2, 0, 2)] == ["supported", "cannot tell", "against"]
    assert [Rule(-2, 2).verdict(found), Rule(-0.5, 2).verdict(found), Rule(2, 3).verdict(found)] == ["supported", "cannot tell", "against"]
    assert Rule(low=0).verdict(claim.Found(1.0, n=1)) == "cannot tell"


def main():
    test_rule()
    test_values()
    test_few_runs()
    test_inputs()
    test_true()
    test_false()
    test_around_zero()


if __name__ == "__main__":
    main()
