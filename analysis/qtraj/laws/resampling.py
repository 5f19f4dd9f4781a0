"""Intervals by leaving out groups of points, and by drawing them: for noise that the points of a group share."""

import numpy as np
from scipy import stats

LEVEL = 0.95


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
