"""Rank correlation with an interval."""

import numpy as np
from scipy import stats

LEAST = 6  # points from which the interval holds as often as it says


def spearman(x: np.ndarray, y: np.ndarray) -> "tuple[float | None, tuple[float, float] | None]":
    """Rank correlation, and its 95 % interval by Fisher's transformation with the variance of Bonett and Wright
    (Psychometrika 65, 2000); None for it below six points or at ±1, None for both where a side is constant.

    >>> rho, interval = qtraj.laws.correlation.spearman(np.arange(6.0), np.array([1, 3, 2, 4, 5.0, 6]))
    >>> round(rho, 3), [round(float(end), 3) for end in interval]
    (0.943, [0.383, 0.996])
    """
    known = np.isfinite(x) & np.isfinite(y)
    x, y = stats.rankdata(x[known]), stats.rankdata(y[known])
    n = len(x)
    if n < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None, None
    rho = float(np.corrcoef(x, y)[0, 1])
    if n < LEAST or abs(rho) > 1 - 1e-12:
        return rho, None
    half = 1.96 * np.sqrt((1 + rho**2 / 2) / (n - 3))
    return rho, tuple(np.tanh(np.arctanh(rho) + side * half) for side in (-1, 1))
