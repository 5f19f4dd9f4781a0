"""A claim, what was measured of it, and the rule, fixed beforehand, that says what that means."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from qtraj.laws.regression import interval

FEW_RUNS = 3  # fewer do not say how much runs differ
SUPPORTED, AGAINST, UNDECIDED = "supported", "against", "cannot tell"
ALONE = {1: " in this run", 2: " in these runs"}  # the interval says nothing of others


@dataclass(frozen=True)
class Rule:
    """A claim is supported if the 95 % interval lies between low and high, and against if it lies outside of them."""

    low: float = -np.inf
    high: float = np.inf

    def verdict(self, found: "Found") -> str:
        """SUPPORTED, AGAINST, or UNDECIDED, also where there is no interval."""
        if np.isnan(found.low) or np.isnan(found.high):
            return UNDECIDED
        if self.low < found.low and found.high < self.high:
            return SUPPORTED
        return AGAINST if found.high < self.low or self.high < found.low else UNDECIDED

    def __str__(self):
        if np.isinf(self.high):
            return f"above {self.low:g}"
        return f"below {self.high:g}" if np.isinf(self.low) else f"from {self.low:g} to {self.high:g}"


@dataclass
class Found:
    """An estimate with its 95 % interval (NaN: none) and what it is over: `runs`, or `text` of these runs alone. n: runs."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    n: int = 0
    over: str = "runs"
    points: int = 0  # errors (of a checkpoint and cell) that it is from
    left_out: int = 0  # those of cells that cannot be told from zero
    logarithms: bool = False


class Value(NamedTuple):
    """The estimate from one run or cell, its standard error over the text (NaN: unknown), and the errors that it is from and leaves out."""

    value: float = np.nan
    error: float = np.nan
    points: int = 0
    left_out: int = 0


@dataclass(frozen=True)
class Claim:
    """measure: the estimate from the data (claims.data.Data). place: in the paper. figure: a function of qtraj.figures. needs: where that is missing,
    it is not measured."""

    name: str
    text: str
    place: str
    estimand: str
    rule: Rule
    figure: str
    measure: Callable
    needs: str  # what there is to measure it on


def over_runs(values: "Sequence[Value]") -> Found:
    """The mean of one value a run. From FEW_RUNS on Student's interval over runs. Of fewer, the interval over the text, which says
    nothing of other runs; errors of runs on one text are added up.

    >>> from qtraj.claims import claim
    >>> found = claim.over_runs([claim.Value(0.5), claim.Value(0.7), claim.Value(0.6)])
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3), found.over
    (0.6, 0.352, 0.848, 'runs')
    """
    known = np.array([one[:2] for one in values if np.isfinite(one.value)], float).reshape(-1, 2)
    counts = {name: sum(getattr(one, name) for one in values) for name in ("points", "left_out")}
    count, value = len(known), float(known[:, 0].mean()) if len(known) else np.nan
    if count >= FEW_RUNS:
        return Found(value, *interval(value, known[:, 0].std(ddof=1) / np.sqrt(count), count - 1), count, **counts)
    half = stats.norm.ppf(0.975) * known[:, 1].mean() if count else np.nan
    return Found(value, value - half, value + half, count, "text", **counts)


def over_columns(value: np.ndarray, x: np.ndarray, others: "Sequence[np.ndarray]" = ()) -> Found:
    """The slope of one value a run on x, with others that vary held fixed: least squares over runs, Student's interval."""
    columns = [x] + [one for one in others if np.ptp(one) > 1e-9]
    design = np.column_stack([np.ones(len(value)), *columns])
    free = len(value) - design.shape[1]
    if free < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return Found(n=len(value))
    found = np.linalg.lstsq(design, value, rcond=None)[0]
    variance = ((value - design @ found) ** 2).sum() / free
    error = np.sqrt(variance * np.linalg.inv(design.T @ design)[1, 1])
    return Found(float(found[1]), *interval(found[1], error, free), len(value))
