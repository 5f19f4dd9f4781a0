"""Least squares with intervals that hold when the noise is uneven or shared by some of the points."""

import numpy as np
from scipy import stats

LEVEL = 0.95


def least_squares(x, y):
    """Ordinary least squares. x: (points, coefficients). Returns the coefficients, their standard errors that allow for
    noise of uneven size (HC3, MacKinnon and White 1985), and the residuals."""
    inverse = np.linalg.pinv(x.T @ x)
    beta = inverse @ x.T @ y
    residual = y - x @ beta
    leverage = np.einsum("ij,jk,ik->i", x, inverse, x).clip(0, 1 - 1e-9)
    scores = x * (residual / (1 - leverage))[:, None]
    return beta, np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse).clip(0)), residual


def interval(value, error, degrees):
    """95 % interval of an estimate with that standard error, by Student's t; NaN without degrees of freedom."""
    half = stats.t.ppf((1 + LEVEL) / 2, degrees) * error if degrees > 0 else np.nan
    return float(value - half), float(value + half)


def within(values, groups):
    """Deviations from each group's mean: fixed effects. values: (points,) or (points, columns)."""
    values = np.asarray(values, dtype=float)
    labels, at = np.unique(groups, return_inverse=True)
    sums = np.zeros((len(labels),) + values.shape[1:])
    np.add.at(sums, at, values)
    counts = np.bincount(at).reshape((-1,) + (1,) * (values.ndim - 1))
    return values - (sums / counts)[at]


def jackknife(fit, groups):
    """Standard errors of fit(rows), an array of estimates from an array of row numbers, by leaving out one group of rows
    after the other: they hold when the noise within a group is correlated (the cluster-robust errors called CR3)."""
    labels = np.unique(groups)
    found = np.array([fit(np.flatnonzero(groups != label)) for label in labels])
    return np.sqrt((len(labels) - 1) / len(labels) * ((found - fit(np.arange(len(groups)))) ** 2).sum(axis=0))


def bootstrap(fit, groups, draws, rng):
    """Estimates, (draws, coefficients), of fit(rows) over groups drawn with replacement. A draw that cannot be fitted
    (ValueError, LinAlgError) is left out. None: fewer than three groups, or most draws cannot be fitted.

    Draws are moved away from the estimate by the factor by which a bootstrap of few groups is too narrow (Hesterberg 2015,
    doi 10.1080/00031305.2015.1089789: the divisor n, and the normal for Student's distribution), with as many degrees of freedom taken as there are
    coefficients, at most half of the groups."""
    labels = np.unique(groups)
    if len(labels) < 3:
        return None
    where = [np.flatnonzero(groups == label) for label in labels]
    found = []
    for _ in range(draws):
        try:
            found.append(fit(np.concatenate([where[i] for i in rng.integers(len(labels), size=len(labels))])))
        except (np.linalg.LinAlgError, ValueError):
            continue
    if not 2 * len(found) > draws:
        return None
    estimate = fit(np.arange(len(groups)))
    free = len(labels) - min(len(estimate), len(labels) // 2)
    wider = np.sqrt(len(labels) / free) * stats.t.ppf((1 + LEVEL) / 2, free) / stats.norm.ppf((1 + LEVEL) / 2)
    return estimate + wider * (np.array(found) - estimate)


def percentiles(values):
    """95 % interval of bootstrapped values."""
    return tuple(float(end) for end in np.nanpercentile(values, (100 * (1 - LEVEL) / 2, 100 * (1 + LEVEL) / 2)))
