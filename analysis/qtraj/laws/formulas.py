"""A formula that predicts the relative error for training runs that it has not seen. docs/fits.md has the formulas."""

import numpy as np
import pandas

from qtraj.laws import regression
from qtraj.laws.effects import clear_of_zero, constants_of, weights_of
from qtraj.laws.fit import checkpoints_of

LEAST_RATE = 0.01  # of a run's greatest learning rate: a rate below counts as that, since zero has no logarithm

FORMULAS = {
    "bits alone": ("ln bits",),
    "token law": ("ln bits", "ln tokens", "ln parameters"),
    "learning rate": ("ln bits", "ln rate"),
    "trace": ("ln bits", "ln trace", "ln distance"),
    "sharpness": ("ln bits", "ln sharpness", "ln distance"),
    "trace and learning rate": ("ln bits", "ln rate", "ln trace", "ln distance"),
    "sharpness and learning rate": ("ln bits", "ln rate", "ln sharpness", "ln distance"),
}


def features(points: pandas.DataFrame) -> "dict[str, np.ndarray]":
    """The variables of the formulas, NaN where they have no value."""
    columns = {"bits": points.bits, "tokens": points.tokens, "parameters": points.parameters, "trace": points.trace,
               "sharpness": points.sharpness, "distance": points.distance}
    greatest = points.groupby("family").learning_rate.transform("max")
    columns["rate"] = np.maximum(points.learning_rate, LEAST_RATE * greatest)
    with np.errstate(all="ignore"):
        logs = {f"ln {name}": np.log(column.to_numpy(float)) for name, column in columns.items()}
    return {name: np.where(np.isfinite(column), column, np.nan) for name, column in logs.items()}


def left_out_groups(points: pandas.DataFrame) -> "tuple[str, np.ndarray]":
    """What is left out at a time: a run with its branches, or of a single run a checkpoint."""
    return ("run", points.family.to_numpy(str)) if points.family.nunique() > 1 else ("checkpoint", checkpoints_of(points))


def fit_formula(points: pandas.DataFrame, x: np.ndarray) -> np.ndarray:
    """Coefficients of ln(relative error) on x."""
    x, y = regression.scaled(weights_of(points, x), x, np.log(points.relative.to_numpy(float)))
    return np.linalg.lstsq(x, y, rcond=1e-10)[0]


def predict(points: pandas.DataFrame, x: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Predictions of every point by the points of all other groups; NaN where those are too few."""
    out = np.full(len(points), np.nan)
    for label in np.unique(groups):
        train = groups != label
        used = np.abs(x[train]).sum(axis=0) > 0
        if train.sum() > used.sum():
            out[~train] = x[~train] @ fit_formula(points[train], x[train])
    return out


def kinds_of(points):
    """A label of method and text for each point: each has a constant."""
    return (points.quantizer + "/" + points.dataset).to_numpy(str)


def predictions(points: pandas.DataFrame) -> dict:
    """For each formula: coefficients fitted on all points, and its predictions of each run from the others. All formulas are
    scored on the same points, with the same weights: those that have what every formula with numbers needs. ValueError: there are too few.

    >>> found = qtraj.laws.predictions(qtraj.points("two_models.h5"))
    >>> {name: round(score["rms error of ln(relative error)"], 2) for name, score in found["scores"].items()}
    {'bits alone': 0.75, 'token law': 0.77, 'learning rate': 0.66, 'trace': 0.2, 'sharpness': 0.23, 'trace and learning rate': 0.2, 'sharpness and learning rate': 0.25}
    """
    good = points[np.isfinite(points.relative)].reset_index(drop=True)
    columns, notes = features(good), []
    measured = {name for name, column in columns.items() if np.isfinite(column).any()}
    same = {name for name in measured if len(np.unique(columns[name])) == 1}  # the constants hold them
    wanted = {name: [feature for feature in use if feature not in same] for name, use in FORMULAS.items() if set(use) <= measured}
    known = np.ones(len(good), dtype=bool)
    for name in {feature for use in wanted.values() for feature in use}:
        known &= np.isfinite(columns[name])
    if (~known).any():
        notes.append(f"{int((~known).sum())} points that lack a variable of one of the formulas are left out")
    everything = sorted({feature for use in wanted.values() for feature in use})

    def with_constants(rows, names):
        return np.column_stack([constants_of(kinds_of(good[rows]))] + [columns[name][rows] for name in names])

    known[known] = clear_of_zero(good[known], with_constants(known, everything), notes)
    part = good[known].reset_index(drop=True)
    if len(part) < 12:
        raise ValueError(f"{len(part)} points with {', '.join(everything) or 'a relative error'} are too few: it takes 12")
    unit, groups = left_out_groups(part)
    if len(np.unique(groups)) < 3 and unit == "checkpoint":
        raise ValueError("a single run with fewer than three checkpoints")
    y = np.log(part.relative.to_numpy(float))
    constants = part.groupby(["quantizer", "dataset"]).ngroups
    weights = weights_of(part, with_constants(known, everything))
    scores = {}
    for name in FORMULAS:
        if name not in wanted:
            scores[name] = None
            continue
        use = wanted[name]
        x = with_constants(known, use)
        predicted = predict(part, x, groups)
        there = np.isfinite(predicted)
        beta = fit_formula(part, x)
        error = float(np.sqrt(np.average((predicted - y)[there] ** 2, weights=weights[there]))) if there.any() else np.nan
        scores[name] = {"n": int(there.sum()), "rms error of ln(relative error)": error,
                        "coefficients": dict(zip(use, map(float, beta[constants:]))), "predicted": np.exp(predicted)}
    return {"left out at a time": unit, "scores": scores, "points": part, "notes": notes}
