"""What a fit found, and its intervals by resampling."""

from dataclasses import dataclass, field

import numpy as np
import pandas

from qtraj.laws import resampling
from qtraj.laws.forms import Form
from qtraj.laws.spread import Spread

SEED = 2411


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
    ranges: dict = field(default_factory=dict)  # smallest and largest value of each column of the points


def checkpoints_of(points: pandas.DataFrame) -> np.ndarray:
    """A label per checkpoint for each point, whatever the width and method."""
    return (points.model + "/" + points.checkpoint + "/" + points.tokens.astype(str)).to_numpy(str)


def add_bootstrap(out, fit, points, draws):
    """Intervals of fit(rows) over checkpoints and over training runs (with their branches), where there are enough."""
    rng = np.random.default_rng(SEED)
    for name, groups in (("bootstrap over checkpoints", checkpoints_of(points)), ("bootstrap over runs", points.family.to_numpy(str))):
        found = resampling.bootstrap(fit, groups, draws, rng)
        if found is None:
            if draws:
                few = f"there are only {len(np.unique(groups))}"
                out.notes.append(f"no {name}: {few if len(np.unique(groups)) < 3 else 'most draws do not determine the law'}")
            continue
        out.intervals[name] = {c: resampling.percentiles(found[:, i]) for i, c in enumerate(out.coefficients)}
        if name == "bootstrap over checkpoints":
            out.draws = found


def uncertainty(points: pandas.DataFrame) -> np.ndarray:
    """Uncertainty of the added losses by text and, where there are replicates, calibration together; 0 where neither is known."""
    return np.hypot(*(np.nan_to_num(points[name].to_numpy(float)) for name in ("delta_stderr", "delta_deviation")))
