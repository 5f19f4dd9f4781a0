"""What the relative error depends on, training tokens or the learning rate. docs/fits.md has the formulas."""

import numpy as np
import pandas

from qtraj.laws import regression, resampling
from qtraj.laws.fit import Fit, checkpoints_of, uncertainty

FEW_RUNS = 5

SPECIFICATIONS = {
    "tokens alone": ("ln tokens",),
    "tokens and learning rate": ("ln tokens", "ln rate"),
    "and the full-precision loss": ("ln tokens", "ln rate", "loss"),
    "learning rate not in logarithms": ("ln tokens", "rate"),
}


def variables(points: pandas.DataFrame) -> "dict[str, np.ndarray]":
    """The variables of the regressions, NaN where they have no value."""
    greatest = points.groupby("family").learning_rate.transform("max").to_numpy(float)
    with np.errstate(all="ignore"):
        rate = points.learning_rate.to_numpy(float) / greatest
        log_rate = np.where(rate > 0, np.log(rate), np.nan)
        return {"ln tokens": np.where(points.tokens > 0, np.log(points.tokens.to_numpy(float)), np.nan), "ln rate": log_rate,
                "rate": rate, "loss": points.loss.to_numpy(float)}


def cells_of(points: pandas.DataFrame) -> np.ndarray:
    """The fixed effect of each point: of its run, method, bit-width and text."""
    return (points.family + "/" + points.quantizer + "/" + points.bits.astype(str) + "/" + points.dataset).to_numpy(str)


def constants_of(groups: np.ndarray) -> np.ndarray:
    """Columns of a regression with a constant for each group."""
    return (groups[:, None] == np.unique(groups)).astype(float)


def error_of_relative(points: pandas.DataFrame) -> np.ndarray:
    """Uncertainty of the relative errors; 0 where it is not known."""
    return uncertainty(points) * (points.relative / points.delta).fillna(0.0).to_numpy(float)


def weights_of(points: pandas.DataFrame, x: np.ndarray) -> np.ndarray:
    """Weights of a regression of ln(relative error) on x: by the uncertainty of the point, beside the scatter around the
    regression."""
    return regression.weights_of_logarithms(x, points.relative.to_numpy(float), error_of_relative(points))


def clear_of_zero(points, x, notes):
    """Which points have a logarithm of the relative error in a regression on x (regression.clear_of_zero), and a note of the others."""
    good = regression.clear_of_zero(x, points.relative.to_numpy(float), error_of_relative(points))
    if (~good).any():
        notes.append(f"{int((~good).sum())} points whose relative error is not clear of zero are left out")
    return good


def usable(points: pandas.DataFrame, names: "tuple[str, ...]", notes: list) -> "tuple[np.ndarray, np.ndarray]":
    """Which points a regression on these variables takes, with notes of the others, and the variables of all points, a column each."""
    all_values = variables(points)
    values = np.column_stack([all_values[name] for name in names])
    kept = np.ones(len(points), dtype=bool)
    for name, good in [({"ln rate": "a positive learning rate", "rate": "a learning rate", "loss": "a full-precision loss",
                         "ln tokens": "tokens"}[name], np.isfinite(values[:, i])) for i, name in enumerate(names)] + [
            ("a relative error", np.isfinite(points.relative.to_numpy(float)))]:
        if (kept & ~good).any():
            notes.append(f"{int((kept & ~good).sum())} points without {name} are left out")
        kept &= good
    part = points[kept]
    kept[kept] = clear_of_zero(part, np.column_stack([constants_of(cells_of(part)), values[kept]]), notes)
    return kept, values


def fixed_effects(points: pandas.DataFrame, names: "tuple[str, ...]") -> Fit:
    """ln(relative error) on variables, with a fixed effect of every (run, method, bits, text); a branch has the effects of
    its run. Weighted by the uncertainties. Standard errors leave out one run after the other, where there are five, else one checkpoint after the other.
    ValueError: the points do not determine it."""
    notes = []
    kept, values = usable(points, names, notes)
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
    beta, error = solve(np.arange(len(part))), resampling.jackknife(solve, groups)
    degrees = len(np.unique(groups)) - (1 if by_run else len(names) + 1)
    ends = {n: regression.interval(b, e, degrees) for n, b, e in zip(names, beta, error)}
    out = Fit("", dict(zip(names, map(float, beta))), {"runs left out" if by_run else "checkpoints left out": ends}, len(part), notes)
    around = regression.within(y, cell, weights)
    total, left = weights @ around**2, weights @ (around - centred @ beta) ** 2
    out.measures["R2 within"] = float(1 - left / total) if total > 0 else np.nan
    if len(names) > 1:
        out.measures["correlation of the first two variables"] = float(np.corrcoef(centred[:, 0], centred[:, 1])[0, 1])
    return out


def tokens_or_rate(points: pandas.DataFrame) -> "dict[str, Fit | str]":
    """The fits of all specifications; a text where the points do not determine one.

    >>> found = qtraj.laws.tokens_or_rate(qtraj.points("two_models.h5"))
    >>> {name: round(effect, 2) for name, effect in found["tokens and learning rate"].coefficients.items()}
    {'ln tokens': 0.2, 'ln rate': -1.17}
    """
    out = {}
    for name, wanted in SPECIFICATIONS.items():
        try:
            out[name] = fixed_effects(points, wanted)
            out[name].name = name
        except ValueError as error:
            out[name] = str(error)
    return out
