"""The error of what a fitted law predicts for a run that it has not seen: how much runs differ from the law, how much a run's points
do, and how unsure the coefficients are."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95


@dataclass
class Spread:
    """Of ln(added loss): variance between runs and between the points of a run, with their degrees of freedom; covariance of the
    coefficients, and the part of it that comes from differences between runs."""

    between: float
    within: float
    free_between: float
    free_within: float
    covariance: np.ndarray
    of_runs: np.ndarray

    def error(self, slopes: np.ndarray, unseen: bool = True) -> "tuple[np.ndarray, np.ndarray]":
        """Standard error of predicted logarithms and its degrees of freedom (Satterthwaite 1946). slopes: derivatives of the
        prediction, a row each. unseen: of a new point of a new run; else of the law itself."""
        whole, runs = (np.einsum("ij,jk,ik->i", slopes, part, slopes) for part in (self.covariance, self.of_runs))
        runs, points = runs + unseen * self.between, whole - runs + unseen * self.within
        free = (runs + points) ** 2 / (runs**2 / max(self.free_between, 1) + points**2 / max(self.free_within, 1))
        return np.sqrt(runs + points), free

    def interval(self, value: np.ndarray, slopes: np.ndarray, unseen: bool = True) -> "tuple[np.ndarray, np.ndarray]":
        """Both ends of the 95 % interval of predicted logarithms, by Student's t."""
        error, free = self.error(slopes, unseen)
        half = stats.t.ppf((1 + LEVEL) / 2, np.maximum(free, 1)) * error
        return value - half, value + half

    def reached(self, rest: float, beta: float, place: int, at_one: np.ndarray) -> "tuple[float, float]":
        """Both ends of ln(tokens) at which the interval of the law holds a loss: where (rest - beta ln(tokens))^2 is at most t^2 times its variance
        (Fieller 1954), a quadratic in ln(tokens); -inf or inf where it holds without end. rest: the loss's logarithm less that of the law at
        one token, where at_one has the slopes; place: of beta among the coefficients."""
        at, c = at_one.copy(), self.covariance
        at[place] = rest / beta
        _, free = self.error(at[None], unseen=False)
        square = stats.t.ppf((1 + LEVEL) / 2, max(free[0], 1)) ** 2
        a, b, d = (beta**2 - square * c[place, place], -beta * rest - square * (at_one @ c[place]), rest**2 - square * (at_one @ c @ at_one))
        root = b**2 - a * d
        if a > 0:  # then the root is real, but for rounding
            return (-b - np.sqrt(max(root, 0.0))) / a, (-b + np.sqrt(max(root, 0.0))) / a
        ends = sorted((-b + side * np.sqrt(max(root, 0.0))) / a for side in (-1, 1))
        if root < 0:
            return -np.inf, np.inf
        return (-np.inf, ends[0]) if rest / beta <= ends[0] else (ends[1], np.inf)


def means_of(values, label, count):
    """Means of the rows of each group, groups in order."""
    sums = np.zeros((len(count),) + values.shape[1:])
    np.add.at(sums, label, values)
    return sums / count.reshape((-1,) + (1,) * (values.ndim - 1))


def between_of(residual, x, label, count, within, noise):
    """Variance between runs and its degrees of freedom. The squares of the residuals' means have the expectation of a sum of two
    parts, one of each variance (analysis of variance of unbalanced groups, such as Swamy and Arora 1972)."""
    hat = means_of(np.eye(len(residual)) - x @ np.linalg.pinv(x), label, count)  # from points to means of residuals
    runs = (label[:, None] == np.arange(len(count))).astype(float)
    squares, of_runs = (means_of(residual, label, count) ** 2).sum(), ((hat @ runs) ** 2).sum()
    of_points = (hat**2 * noise).sum()
    singular = np.linalg.svd(hat @ runs, compute_uv=False) ** 2
    free = singular.sum() ** 2 / (singular**2).sum() if singular.sum() > 1e-9 else 0.0
    return max((squares - within * of_points) / of_runs, 0.0) if free else 0.0, free


def spread_of(x: np.ndarray, residual: np.ndarray, weights: np.ndarray, runs: np.ndarray) -> "Spread | None":
    """The spread of a least-squares fit with these weights. x: the slopes at its points; residual: of the logarithms; runs: a label
    for each point. A point's noise has the variance within/weight, the mean of the weights being one. None: a single run does not say how
    much others differ from it."""
    if len(set(runs)) < 2:
        return None
    weights = weights / weights.mean()
    label = np.unique(runs, return_inverse=True)[1]
    count = np.bincount(label).astype(float)
    root = np.sqrt(weights)[:, None]
    pinv = np.linalg.pinv(x * root) * root.T  # the estimate's derivative with respect to the logarithms
    centred = np.column_stack([x, residual]) - means_of(np.column_stack([x, residual]), label, count)[label]
    inside, left = centred[:, :-1] * root, centred[:, -1] * root[:, 0]
    rank = np.linalg.matrix_rank(inside, tol=1e-8 * max(np.abs(x).max(), 1) * np.sqrt(len(x)))
    free_within = len(x) - len(count) - rank
    left = left - inside @ np.linalg.lstsq(inside, left, rcond=1e-10)[0]
    within = (left**2).sum() / max(free_within, 1)
    between, free = between_of(residual, x, label, count, within, 1 / weights)
    by_run = np.stack([pinv[:, label == i].sum(axis=1) for i in range(len(count))], axis=1)
    of_runs = between * by_run @ by_run.T
    return Spread(float(between), float(within), float(free), float(free_within), within * (pinv / weights) @ pinv.T + of_runs, of_runs)
