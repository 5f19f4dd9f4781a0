"""What a fit found, and its intervals by resampling."""

from dataclasses import dataclass, field

import numpy as np
import pandas

from qtraj.laws import regression, resampling
from qtraj.laws.forms import Form
from qtraj.laws.spread import Spread

SEED = 2411
FEW_RUNS = 3  # fewer do not say how much runs differ
BY_RUN = "runs left out"


@dataclass
class Fit:
    """Coefficients by name; their 95 % intervals by the way they were made, then by name; what was left out and why."""

    name: str
    coefficients: dict
    intervals: dict = field(default_factory=dict)
    n: int = 0
    notes: list = field(default_factory=list)
    measures: dict = field(default_factory=dict)
    draws: "np.ndarray | None" = None  # bootstrap over checkpoints, columns in the order of coefficients
    form: "Form | None" = None
    spread: "Spread | None" = None  # of what it predicts for runs that it has not seen
    ranges: dict = field(default_factory=dict)  # smallest and largest value of each column of the points, and `rate`, over its peak, if the law has it


def checkpoints_of(points: pandas.DataFrame) -> np.ndarray:
    """A label per checkpoint for each point, whatever the width and method."""
    return (points.model + "/" + points.checkpoint + "/" + points.tokens.astype(str)).to_numpy(str)


def add_resampled(out, fit, points, draws, by_run=True, between=1):
    """Intervals of fit(rows) by bootstrap over checkpoints (draws: 0 for none), and, with by_run, by leaving out one training run (with its
    branches) after the other, where there are enough. between: how many coefficients runs alone tell apart, a level among them."""
    every, runs = np.arange(len(points)), points.family.to_numpy(str)
    checkpoints, count = checkpoints_of(points), len(np.unique(runs))
    found = resampling.bootstrap(fit, checkpoints, draws, np.random.default_rng(SEED)) if draws else None
    if found is not None:
        out.intervals["bootstrap over checkpoints"] = {c: resampling.percentiles(found[:, i]) for i, c in enumerate(out.coefficients)}
        out.draws = found
    elif draws:
        few = f"there are only {len(np.unique(checkpoints))}"
        out.notes.append(f"no bootstrap over checkpoints: {few if len(np.unique(checkpoints)) < 3 else 'most draws do not determine the law'}")
    if by_run and count >= FEW_RUNS:
        try:
            errors = resampling.jackknife(fit, runs)
        except np.linalg.LinAlgError:
            out.notes.append("no interval by runs left out: without one of them the points do not determine the law")
            return
        out.intervals[BY_RUN] = {c: regression.interval(value, error, count - between) for c, value, error in zip(out.coefficients, fit(every), errors)}


def uncertainty(points: pandas.DataFrame) -> np.ndarray:
    """Uncertainty of the added losses by text and, where there are replicates, calibration together; 0 where neither is known."""
    return np.hypot(*(np.nan_to_num(points[name].to_numpy(float)) for name in ("delta_stderr", "delta_deviation")))
