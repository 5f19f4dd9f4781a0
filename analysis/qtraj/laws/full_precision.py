"""The law of arXiv 2411.17691 (its Eq. 3) for the loss in full precision. docs/fits.md has the formula."""

import numpy as np
import pandas
from scipy import optimize

from qtraj.laws.fit import Fit, add_resampled

PUBLISHED = {"Nc": 4.74e19, "Dc": 7.63e10, "alpha_N": 0.045, "alpha_D": 0.399}


def solve_full_precision(n, d, y):
    """Logarithms of Nc, Dc, alpha_N and alpha_D, and the residuals, from the logarithms of parameters, tokens and losses."""

    def curve(b):
        return np.exp(b[3]) * np.logaddexp(np.exp(b[2]) * (b[0] - n), b[1] - d)

    start = [np.log(4.74e19), np.log(7.63e10), np.log(0.045 / 0.399), np.log(0.399)]
    found = optimize.least_squares(lambda b: curve(b) - y, start, loss="soft_l1", f_scale=0.02, x_scale="jac", max_nfev=2000)
    nc, dc, ratio, power = found.x
    return np.array([nc, dc, ratio + power, power]), curve(found.x) - y


def full_precision_value(law: dict, parameters: float, tokens: float) -> float:
    """The loss in nats a token that the coefficients of the full-precision law give; numbers or arrays.

    >>> from qtraj.laws import full_precision
    >>> round(full_precision.full_precision_value(full_precision.PUBLISHED, parameters=7e9, tokens=1e13), 3)
    2.77
    """
    ratio = law["alpha_N"] / law["alpha_D"]
    return ((law["Nc"] / parameters) ** ratio + law["Dc"] / tokens) ** law["alpha_D"]


def full_precision_points(points: pandas.DataFrame) -> pandas.DataFrame:
    """One point a checkpoint and text."""
    one = points.drop_duplicates(["model", "checkpoint", "tokens", "dataset"])
    return one[(one.loss > 0) & (one.tokens > 0) & (one.parameters > 0)].reset_index(drop=True)


def full_precision_law(points: pandas.DataFrame, draws: int = 100) -> Fit:
    """L = ((Nc/N)^(alpha_N/alpha_D) + Dc/D)^alpha_D by soft-L1 least squares of ln L. ValueError: the points do not
    determine it."""
    one = full_precision_points(points)
    if one.dataset.nunique() > 1:
        raise ValueError("losses on several texts have no law in common; --dataset chooses one")
    if one.parameters.nunique() < 3 or len(one) < 8:
        raise ValueError(f"it takes three sizes of model and eight checkpoints with a full-precision loss; there are "
                         f"{one.parameters.nunique()} and {len(one)}")
    n, d, y = (np.log(one[name].to_numpy(float)) for name in ("parameters", "tokens", "loss"))
    found, residual = solve_full_precision(n, d, y)
    out = Fit("full-precision law", dict(zip(PUBLISHED, map(float, np.exp(found)))), {}, len(one))
    out.measures["standard deviation of ln(loss / law)"] = float(np.std(residual))
    sizes = [one.parameters[one.family != run].nunique() for run in one.family.unique()]
    add_resampled(out, lambda rows: solve_full_precision(n[rows], d[rows], y[rows])[0], one, draws, by_run=min(sizes) > 2, between=2)
    out.intervals = {kind: {name: tuple(float(end) for end in np.exp(ends)) for name, ends in intervals.items()}
                     for kind, intervals in out.intervals.items()}
    out.draws = None  # they are logarithms
    return out
