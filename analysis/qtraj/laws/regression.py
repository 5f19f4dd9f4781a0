"""Least squares with intervals that hold when the noise is uneven or shared by some of the points."""

import numpy as np
from scipy import optimize, stats
from scipy.linalg.lapack import dgels
from statsmodels.regression.linear_model import WLS, RegressionResults

LEVEL = 0.95
ROUNDS = 100  # of weights that depend on the fit, at most
ALONE = 1e-9  # below 1: the leverage of a point that alone determines a coefficient
CLEAR = 5.0  # standard errors above zero from which noise hardly moves a logarithm: by 2 % on average


def least_squares(x: np.ndarray, y: np.ndarray, weights: "np.ndarray | float" = 1.0) -> RegressionResults:
    """Weighted least squares of y on the columns of x, by statsmodels. Standard errors and intervals (Student's t) allow for noise of
    uneven size: HC3, MacKinnon and White 1985; NaN where a point alone determines a coefficient, so that its residual is 0 whatever its noise.

    >>> x = np.column_stack([np.ones(4), [1, 2, 3, 4.0]])
    >>> found = qtraj.laws.regression.least_squares(x, np.array([2, 3, 5, 6.0]))
    >>> found.params.round(3), found.bse.round(3)
    (array([0.5, 1.4]), array([0.43 , 0.154]))
    """
    model = WLS(y, x, weights)
    found = model.fit(use_t=True)
    q, _ = np.linalg.qr(scaled(np.broadcast_to(weights, len(y)), x)[0])
    if ((q**2).sum(axis=1) > 1 - ALONE).any():
        return RegressionResults(model, found.params, np.full((x.shape[1], x.shape[1]), np.nan), found.scale, use_t=True)
    return found.get_robustcov_results("HC3", use_t=True)


def interval(value: float, error: float, degrees: int) -> "tuple[float, float]":
    """95 % interval of an estimate with that standard error, by Student's t; NaN without degrees of freedom."""
    half = stats.t.ppf((1 + LEVEL) / 2, degrees) * error if degrees > 0 else np.nan
    return float(value - half), float(value + half)


def within(values: np.ndarray, groups: np.ndarray, weights: np.ndarray) -> np.ndarray:
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


def basis_of(x):
    """Orthonormal columns that span those of x."""
    u, sizes, _ = np.linalg.svd(x, full_matrices=False)
    return u[:, sizes > np.finfo(float).eps * max(x.shape) * sizes[0]]


def weights_beside_scatter(x: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Weights 1/(scatter^2 + known^2), the largest 1, for points whose noise has a known standard deviation and a scatter that
    is the same for all: the one with which the weighted squares of the residuals add up to their degrees of freedom (Paule
    and Mandel 1982, doi 10.6028/jres.087.022; statsmodels has it for means, not for regressions)."""
    x = basis_of(x)
    free = len(y) - x.shape[1]

    def squares(weights):
        _, found, _ = dgels(*scaled(weights, x, y))  # 300,000 times in golden.fits: numpy's qr takes twice the time
        return (found[x.shape[1] :] ** 2).sum()  # squares of the residuals, rotated

    most = squares(np.ones(len(y))) / max(free, 1)
    if free < 1 or not known.any() or not most > 0:
        return np.ones(len(y))

    def excess(log_square):
        return squares(1 / (np.exp(log_square) + known**2)) - free

    low, high = np.log(most) - 14, np.log(most) + 1
    if excess(low) < 0:
        square = np.exp(low)  # the known noise is all there is
    else:
        square = np.exp(optimize.brentq(excess, low, high, xtol=1e-12) if excess(high) < 0 else high)
    weights = 1 / (square + known**2)
    return weights / weights.max()


def weights_of_logarithms(x: np.ndarray, value: np.ndarray, error: np.ndarray) -> np.ndarray:
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


def clear_of_zero(x: np.ndarray, value: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Which points least squares of ln(value) on x takes: those that are positive where the fit is CLEAR errors above zero. The fit decides,
    not the value, since to leave out what noise made small or negative would keep what it made large; but twice CLEAR errors are not noise,
    and such values stay, where the fit may be too low. Found by leaving out points until none is left to leave out; errors of 0 (unknown)
    leave out what is not positive alone."""
    kept = value > 0
    for _ in range(ROUNDS):
        if not (error[kept] > 0).any() or kept.sum() <= x.shape[1]:
            break
        weights = weights_of_logarithms(x[kept], value[kept], error[kept])
        beta = np.linalg.lstsq(*scaled(weights, x[kept], np.log(value[kept])), rcond=None)[0]
        fewer = kept & ((np.exp(np.clip(x @ beta, -700, 700)) >= CLEAR * error) | (value >= 2 * CLEAR * error))
        if (fewer == kept).all():
            break
        kept = fewer
    return kept
