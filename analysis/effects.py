"""What the relative error depends on: training tokens or the learning rate (the test that arXiv 2510.06213 asks for), and
a formula that predicts it for training runs that it has not seen. docs/fits.md has the formulas."""

import numpy as np

import regression
from laws import Fit, checkpoints_of, uncertainty

FEW_RUNS = 5
LEAST_RATE = 0.01  # of a run's greatest learning rate: a rate below counts as that, since zero has no logarithm


# --- tokens against learning rate ---

SPECIFICATIONS = {
    "tokens alone": ("ln tokens",),
    "tokens and learning rate": ("ln tokens", "ln rate"),
    "and the full-precision loss": ("ln tokens", "ln rate", "loss"),
    "learning rate not in logarithms": ("ln tokens", "rate"),
}


def variables(points):
    """The variables of the regressions, NaN where they have no value."""
    greatest = points.groupby("family").learning_rate.transform("max").to_numpy(float)
    with np.errstate(all="ignore"):
        rate = points.learning_rate.to_numpy(float) / greatest
        log_rate = np.where(rate > 0, np.log(rate), np.nan)
        return {"ln tokens": np.where(points.tokens > 0, np.log(points.tokens.to_numpy(float)), np.nan), "ln rate": log_rate,
                "rate": rate, "loss": points.loss.to_numpy(float)}


def cells_of(points):
    """The fixed effect of each point: of its run, method, bit-width and text."""
    return (points.family + "/" + points.quantizer + "/" + points.bits.astype(str) + "/" + points.dataset).to_numpy(str)


def constants_of(groups):
    """Columns of a regression with a constant for each group."""
    return (groups[:, None] == np.unique(groups)).astype(float)


def weights_of(points, x):
    """Weights of a regression of ln(relative error) on x: by the uncertainty of the point, beside the scatter around the
    regression."""
    error = uncertainty(points) * points.relative / points.delta
    return regression.weights_of_logarithms(x, points.relative.to_numpy(float), error.to_numpy(float))


def fixed_effects(points, names):
    """ln(relative error) on variables, with a fixed effect of every (run, method, bits, text); a branch has the effects of
    its run. Weighted by the uncertainties. Standard errors leave out one run after the other, where there are five, else one checkpoint after the other.
    ValueError: the points do not determine it."""
    all_values = variables(points)
    values = np.column_stack([all_values[name] for name in names])
    notes, kept = [], np.ones(len(points), dtype=bool)
    for name, good in [("a positive relative error", points.relative.to_numpy(float) > 0)] + [
            ({"ln rate": "a positive learning rate", "rate": "a learning rate", "loss": "a full-precision loss",
              "ln tokens": "tokens"}[name], np.isfinite(values[:, i])) for i, name in enumerate(names)]:
        if (kept & ~good).any():
            notes.append(f"{int((kept & ~good).sum())} points without {name} are left out")
        kept &= good
    part, x = points[kept], values[kept]
    cell, y = cells_of(part), np.log(part.relative.to_numpy(float))
    if len(part) <= len(np.unique(cell)) + len(names):
        raise ValueError(f"{len(part)} usable points are too few for {len(np.unique(cell))} fixed effects and {len(names)} "
                         f"coefficient{'s' if len(names) > 1 else ''}")
    weights = weights_of(part, np.column_stack([constants_of(cell), x]))
    centred = regression.within(x, cell, weights)
    spread = np.sqrt((centred**2).sum(axis=0))
    if (spread < 1e-9).any() or np.linalg.matrix_rank(centred / spread, tol=1e-6) < len(names):
        raise ValueError(f"{' and '.join(names)} do not vary independently within a run")

    def solve(rows):
        w = weights[rows]
        return np.linalg.lstsq(*regression.scaled(w, *(regression.within(v[rows], cell[rows], w) for v in (x, y))), rcond=None)[0]

    by_run = part.family.nunique() >= FEW_RUNS
    groups = part.family.to_numpy(str) if by_run else checkpoints_of(part)
    if not by_run:
        notes.append(f"fewer than {FEW_RUNS} runs: the intervals allow for noise that a checkpoint's points share, not for noise "
                     "that a run's checkpoints share")
    if len(np.unique(groups)) <= len(names) + 1:
        raise ValueError(f"{len(np.unique(groups))} checkpoints are too few for an interval")
    beta, error = solve(np.arange(len(part))), regression.jackknife(solve, groups)
    degrees = len(np.unique(groups)) - (1 if by_run else len(names) + 1)
    ends = {n: regression.interval(b, e, degrees) for n, b, e in zip(names, beta, error)}
    out = Fit("", dict(zip(names, map(float, beta))), {"runs left out" if by_run else "checkpoints left out": ends}, len(part), notes)
    around = regression.within(y, cell, weights)
    total, left = weights @ around**2, weights @ (around - centred @ beta) ** 2
    out.measures["R2 within"] = float(1 - left / total) if total > 0 else np.nan
    if len(names) > 1:
        out.measures["correlation of the first two variables"] = float(np.corrcoef(centred[:, 0], centred[:, 1])[0, 1])
    return out


def tokens_or_rate(points):
    """The fits of all specifications; a text where the points do not determine one."""
    out = {}
    for name, wanted in SPECIFICATIONS.items():
        try:
            out[name] = fixed_effects(points, wanted)
            out[name].name = name
        except ValueError as error:
            out[name] = str(error)
    return out


# --- a formula that predicts ---

FORMULAS = {
    "bits alone": ("ln bits",),
    "token law": ("ln bits", "ln tokens", "ln parameters"),
    "learning rate": ("ln bits", "ln rate"),
    "trace": ("ln bits", "ln trace", "ln distance"),
    "sharpness": ("ln bits", "ln sharpness", "ln distance"),
    "trace and learning rate": ("ln bits", "ln rate", "ln trace", "ln distance"),
    "sharpness and learning rate": ("ln bits", "ln rate", "ln sharpness", "ln distance"),
}


def features(points):
    """The variables of the formulas, NaN where they have no value."""
    columns = {"bits": points.bits, "tokens": points.tokens, "parameters": points.parameters, "trace": points.trace,
               "sharpness": points.sharpness, "distance": points.distance}
    greatest = points.groupby("family").learning_rate.transform("max")
    columns["rate"] = points.learning_rate.clip(lower=LEAST_RATE * greatest)
    with np.errstate(all="ignore"):
        logs = {f"ln {name}": np.log(column.to_numpy(float)) for name, column in columns.items()}
    return {name: np.where(np.isfinite(column), column, np.nan) for name, column in logs.items()}


def left_out_groups(points):
    """What is left out at a time: a run with its branches, or of a single run a checkpoint."""
    return ("run", points.family.to_numpy(str)) if points.family.nunique() > 1 else ("checkpoint", checkpoints_of(points))


def fit_formula(points, x):
    """Coefficients of ln(relative error) on x."""
    x, y = regression.scaled(weights_of(points, x), x, np.log(points.relative.to_numpy(float)))
    return np.linalg.lstsq(x, y, rcond=1e-10)[0]


def predict(points, x, groups):
    """Predictions of every point by the points of all other groups; NaN where those are too few."""
    out = np.full(len(points), np.nan)
    for label in np.unique(groups):
        train = groups != label
        used = np.abs(x[train]).sum(axis=0) > 0
        if train.sum() > used.sum():
            out[~train] = x[~train] @ fit_formula(points[train], x[train])
    return out


def predictions(points):
    """For each formula: coefficients fitted on all points, and its predictions of each run from the others. All formulas are
    scored on the same points, with the same weights: those that have what every formula with numbers needs. ValueError: there are too few."""
    good = points[points.relative > 0].reset_index(drop=True)
    columns, notes = features(good), []
    measured = {name for name, column in columns.items() if np.isfinite(column).any()}
    same = {name for name in measured if len(np.unique(columns[name])) == 1}  # the constants hold them
    wanted = {name: [feature for feature in use if feature not in same] for name, use in FORMULAS.items() if set(use) <= measured}
    known = np.ones(len(good), dtype=bool)
    for name in {feature for use in wanted.values() for feature in use}:
        known &= np.isfinite(columns[name])
    if (points.relative <= 0).any():
        notes.append(f"{int((points.relative <= 0).sum())} points whose relative error is not positive are left out")
    if (~known).any():
        notes.append(f"{int((~known).sum())} points that lack a variable of one of the formulas are left out")
    part = good[known].reset_index(drop=True)
    if len(part) < 12:
        raise ValueError(f"{len(part)} points with all variables are too few")
    unit, groups = left_out_groups(part)
    if len(np.unique(groups)) < 3 and unit == "checkpoint":
        raise ValueError("a single run with fewer than three checkpoints")
    y = np.log(part.relative.to_numpy(float))
    kinds = (part.quantizer + "/" + part.dataset).to_numpy(str)
    constants = constants_of(kinds)
    everything = sorted({feature for use in wanted.values() for feature in use})
    weights = weights_of(part, np.column_stack([constants] + [columns[feature][known] for feature in everything]))
    scores = {}
    for name in FORMULAS:
        if name not in wanted:
            scores[name] = None
            continue
        use = wanted[name]
        x = np.column_stack([constants] + [columns[feature][known] for feature in use])
        predicted = predict(part, x, groups)
        there = np.isfinite(predicted)
        beta = fit_formula(part, x)
        error = float(np.sqrt(np.average((predicted - y)[there] ** 2, weights=weights[there]))) if there.any() else np.nan
        scores[name] = {"n": int(there.sum()), "rms error of ln(relative error)": error,
                        "coefficients": dict(zip(use, map(float, beta[constants.shape[1]:]))), "predicted": np.exp(predicted)}
    return {"left out at a time": unit, "scores": scores, "points": part, "notes": notes}
