"""Least squares with intervals that hold when the noise is uneven or shared by some of the points."""

import numpy as np
from scipy import optimize, stats

LEVEL = 0.95
ROUNDS = 100  # of weights that depend on the fit, at most


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


def within(values, groups, weights):
    """Deviations from each group's weighted mean: fixed effects. values: (points,) or (points, columns)."""
    values = np.asarray(values, dtype=float)
    labels, at = np.unique(groups, return_inverse=True)
    flat = (slice(None),) + (None,) * (values.ndim - 1)
    sums = np.zeros((len(labels),) + values.shape[1:])
    np.add.at(sums, at, weights[flat] * values)
    return values - (sums / np.bincount(at, weights)[flat])[at]


def scaled(weights, *arrays):
    """Rows times the roots of their weights: least squares of these is weighted least squares."""
    root = np.sqrt(weights)
    return [array * (root if array.ndim == 1 else root[:, None]) for array in arrays]


def weights_beside_scatter(x, y, known):
    """Weights 1/(scatter^2 + known^2), the largest 1, for points whose noise has a known standard deviation and a scatter that
    is the same for all: the one with which the weighted squares of the residuals add up to their degrees of freedom (Paule
    and Mandel 1982, doi 10.6028/jres.087.022)."""
    free = len(y) - np.linalg.matrix_rank(x)
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    most = (residual**2).sum() / max(free, 1)
    if free < 1 or not known.any() or not most > 0:
        return np.ones(len(y))

    def excess(log_square):
        weights = 1 / (np.exp(log_square) + known**2)
        x_scaled, y_scaled = scaled(weights, x, y)
        return ((y_scaled - x_scaled @ np.linalg.lstsq(x_scaled, y_scaled, rcond=None)[0]) ** 2).sum() - free

    low, high = np.log(most) - 14, np.log(most) + 1
    if excess(low) < 0:
        square = np.exp(low)  # the known noise is all there is
    else:
        square = np.exp(optimize.brentq(excess, low, high, xtol=1e-12) if excess(high) < 0 else high)
    weights = 1 / (square + known**2)
    return weights / weights.max()


def weights_of_logarithms(x, value, error):
    """Weights of least squares of ln(value) on x, where the values have errors. The logarithm's is error/value; where the fit
    is below the value, error/fit, since weights by the values alone would prefer those that noise made large. Iterated until
    no weight changes by more than 10⁻⁹ of the largest, a hundred times at most."""
    y, fitted, weights = np.log(value), value, 0
    for _ in range(ROUNDS):
        before, weights = weights, weights_beside_scatter(x, y, error / np.minimum(value, fitted))
        if np.abs(weights - before).max() < 1e-9:
            break
        fitted = np.exp(x @ np.linalg.lstsq(*scaled(weights, x, y), rcond=None)[0])
    return weights
