"""Laws of one variable of arXiv 2411.17691: of the full-precision loss (Eq. 1 and 2) and of the added loss (Eq. 5 to 7)."""

import numpy as np
import pandas

from qtraj.laws import regression, resampling
from qtraj.laws.added_loss import COLUMNS, known_size, with_logarithms
from qtraj.laws.effects import constants_of
from qtraj.laws.fit import BY_RUN, FEW_RUNS, Fit, uncertainty
from qtraj.laws.forms import TERMS
from qtraj.laws.full_precision import full_precision_points

PUBLISHED = {"beta": 0.5316, "alpha": 0.2276, "gamma": 5.4812}
OTHERS = {"beta": ["parameters", "bits"], "alpha": ["tokens", "bits"], "gamma": ["parameters", "tokens"]}
SAME_TOKENS = 0.05  # tokens of different sizes count as equal within this part


def rounded(values):
    """Labels that are equal for numbers that differ by less than SAME_TOKENS, about."""
    return np.round(np.log(values.to_numpy(float)) / np.log1p(SAME_TOKENS)).astype(int)


def over_runs(fit, runs, name):
    """The 95 % interval of the first estimate of fit(rows), by leaving out one run after the other; NaN for fewer than FEW_RUNS."""
    count, ends = len(np.unique(runs)), (np.nan, np.nan)
    if count >= FEW_RUNS:
        ends = regression.interval(fit(np.arange(len(runs)))[0], resampling.jackknife(fit, runs)[0], count - 1)
    return {BY_RUN: {name: ends}}


def in_logarithms(part, cell, name, notes):
    """Points of the cells in which the variable varies, and their cells, of those that have logarithms (with_logarithms)."""
    for last in (False, True):
        x = TERMS[name][0](part)
        varies = np.array([np.ptp(x[cell == label]) > 0 for label in cell], dtype=bool) if len(part) else np.array([], bool)
        part, cell, x = part[varies].reset_index(drop=True), cell[varies], x[varies]
        if len(part) and not last:
            before = part.assign(cell=cell)
            part = with_logarithms(before, np.column_stack([constants_of(cell), x]), notes)
            cell = part.cell.to_numpy(str)
    return part, cell


def single_laws(points: pandas.DataFrame) -> "dict[str, Fit | str]":
    """The exponents of added loss ~ D^beta, 1/N^alpha and 1/P^gamma, each with the two other variables held fixed (a constant for each
    of their values) by least squares on logarithms; a text where the points do not determine one. Intervals leave out one run after the other.

    >>> points = qtraj.points("two_models.h5")
    >>> found = qtraj.laws.single_laws(points[points.quantizer == "gptq"].reset_index(drop=True))
    >>> round(found["gamma"].coefficients["gamma"], 2), found["alpha"]
    (4.66, 'alpha: its variable does not vary while the others are held fixed')
    """
    out = {}
    for name, others in OTHERS.items():
        notes = []
        part = known_size(points, notes, COLUMNS)
        labels = [rounded(part[other]).astype(str) if other == "tokens" else part[other].astype(str) for other in others]
        cell = np.array([f"{one}/{two}" for one, two in zip(*labels)], dtype=str)
        if name == "beta":
            cell = np.char.add(np.char.add(cell, "/"), part.family.to_numpy(str))
        part, cell = in_logarithms(part, cell, name, notes)
        x = TERMS[name][0](part)
        if len(part) <= len(np.unique(cell)) + 1:
            out[name] = f"{name}: its variable does not vary while the others are held fixed"
            continue
        design = np.column_stack([constants_of(cell), x])
        delta = part.delta.to_numpy(float)
        scaled = regression.scaled(regression.weights_of_logarithms(design, delta, uncertainty(part)), design, np.log(delta))

        def fit(rows, x_and_y=scaled):
            return np.linalg.lstsq(*(values[rows] for values in x_and_y), rcond=None)[0][::-1]

        exponent = float(fit(np.arange(len(part)))[0])
        out[name] = Fit("", {name: exponent}, over_runs(fit, part.family.to_numpy(str), name), len(part), notes)
    return out


def power_of(points, column, name):
    """loss = (scale/value)^exponent by least squares of logarithms."""
    x, y = -np.log(points[column].to_numpy(float)), np.log(points.loss.to_numpy(float))

    def fit(rows):
        return np.polyfit(x[rows], y[rows], 1)

    exponent, level = map(float, fit(np.arange(len(points))))
    with np.errstate(over="ignore", divide="ignore"):
        scale = float(np.exp(np.divide(level, exponent)))
    return Fit("", {f"alpha_{name}": exponent, f"{name}c": scale},
               over_runs(fit, points.family.to_numpy(str), f"alpha_{name}"), len(points), [] if exponent > 0 else ["the loss does not fall with the variable"])


def full_precision_singles(points: pandas.DataFrame) -> "dict[str, Fit | str]":
    """L(N) = (Nc/N)^alpha_N over the last checkpoint of each size, and L(D) = (Dc/D)^alpha_D over the checkpoints of the largest model: each
    assumes that the other variable does not limit the loss. A text where the points do not determine one."""
    one = full_precision_points(points)
    if one.dataset.nunique() > 1:
        return dict.fromkeys(("L(N)", "L(D)"), "losses on several texts have no law in common; --dataset chooses one")
    last = one.sort_values("tokens").groupby("parameters").tail(1)
    largest = one[one.parameters == one.parameters.max()]
    out = {"L(N)": "fewer than three sizes of model", "L(D)": "fewer than three checkpoints of the largest model"}
    if len(last) > 2:
        out["L(N)"] = power_of(last, "parameters", "N")
    if largest.tokens.nunique() > 2:
        out["L(D)"] = power_of(largest, "tokens", "D")
    return out
