"""The law of arXiv 2411.17691 for the loss that quantization adds, k D^beta / (N^alpha P^gamma), the token law. docs/fits.md has the
formulas."""

import numpy as np
import pandas
from scipy import optimize

from qtraj.laws import regression
from qtraj.laws.fit import Fit, add_bootstrap, uncertainty

# The fit of all bit-widths together, GPTQ, Pythia. N without embeddings, D in tokens, P in bits.
PUBLISHED = {"ln k": float(np.log(0.017)), "beta": 0.5251, "alpha": 0.2261, "gamma": 5.4967}


def known_size(points: pandas.DataFrame, notes: list) -> pandas.DataFrame:
    """Points with parameters, tokens and bits."""
    known = np.isfinite(points[["parameters", "tokens", "bits"]].astype(float)).all(axis=1)
    known &= (points.tokens > 0) & (points.parameters > 0) & (points.bits > 0)
    if (~known).any():
        notes.append(f"{int((~known).sum())} points without parameters, tokens or bits are left out")
    return points[known].reset_index(drop=True)


def positive(points: pandas.DataFrame, notes: list) -> pandas.DataFrame:
    """Points whose added loss has a logarithm."""
    good = points.delta > 0
    if (~good).any():
        notes.append(f"{int((~good).sum())} points whose added loss is not positive are left out; where many are, the law is "
                     "too high at small losses")
    unsure = good & (points.delta < 2 * uncertainty(points))
    if unsure.any():
        notes.append(f"{int(unsure.sum())} points whose added loss is below twice its uncertainty have little weight")
    return points[good].reset_index(drop=True)


def design(points: pandas.DataFrame, notes: list) -> "tuple[np.ndarray, list[str]]":
    """Columns of the law in logarithms and their names; what does not vary cannot be told from k."""
    columns, names = [np.ones(len(points))], ["ln k"]
    for name, sign, values in (("beta", 1, points.tokens), ("alpha", -1, points.parameters), ("gamma", -1, points.bits)):
        if values.nunique() > 1:
            columns.append(sign * np.log(values.to_numpy(float)))
            names.append(name)
        else:
            notes.append(f"{name} is not fitted: its variable has one value in all points")
    x = np.column_stack(columns)
    if len(points) <= len(names):
        raise ValueError(f"{len(points)} usable points are too few for {len(names)} coefficients")
    if np.linalg.matrix_rank(x) < len(names):
        raise ValueError(f"the points do not tell {', '.join(names)} apart: their variables change together")
    return x, names


def solve(x, y):
    """Least squares; LinAlgError if the coefficients are not determined."""
    beta, _, rank, _ = np.linalg.lstsq(x, y, rcond=1e-10)
    if rank < x.shape[1]:
        raise np.linalg.LinAlgError("singular")
    return beta


def token_law(points: pandas.DataFrame, draws: int = 400) -> Fit:
    """The law by least squares on logarithms; draws: of each bootstrap. ValueError: the points do not determine it.

    >>> points = qtraj.points("two_models.h5")
    >>> law = qtraj.laws.token_law(points[points.quantizer == "gptq"].reset_index(drop=True), draws=0)
    >>> {name: round(value, 3) for name, value in law.coefficients.items()}  # of ln(nats a token)
    {'ln k': -5.074, 'beta': 0.311, 'gamma': 4.66}
    """
    notes = []
    part = positive(known_size(points, notes), notes)
    x, names = design(part, notes)
    y = np.log(part.delta.to_numpy(float))
    weights = regression.weights_of_logarithms(x, part.delta.to_numpy(float), uncertainty(part))
    found = regression.least_squares(x, y, weights / weights.mean())
    ends = {name: (float(low), float(high)) for name, (low, high) in zip(names, found.conf_int())}
    out = Fit("least squares on logarithms", dict(zip(names, map(float, found.params))), {"HC3": ends}, len(part), notes)
    out.measures["standard deviation of ln(added loss / law)"] = float(np.sqrt(found.scale))
    out.measures["R2"] = float(found.rsquared) if found.centered_tss > 0 else np.nan
    x, y = regression.scaled(weights, x, y)
    add_bootstrap(out, lambda rows: solve(x[rows], y[rows]), part, draws)
    return out


def robust(x, y, unit, start):
    """Minimizes the soft-L1 loss of (exp(x b) - y)/unit from b = start. Returns b and its sandwich standard errors (Huber 1967)."""

    def curve(b):
        return np.exp(np.clip(x @ b, -700, 50))

    def jacobian(b):
        return (curve(b) / unit)[:, None] * x

    found = optimize.least_squares(lambda b: (curve(b) - y) / unit, start, jac=jacobian, loss="soft_l1", x_scale="jac")
    z, slope = found.fun, jacobian(found.x)
    first, second = (1 + z**2) ** -0.5, (1 + z**2) ** -1.5  # psi(z)/z and psi'(z) of rho = 2 (sqrt(1 + z^2) - 1)
    bread = np.linalg.pinv(slope.T @ (second[:, None] * slope))
    scores = (first * z)[:, None] * slope
    scale = len(y) / max(len(y) - x.shape[1], 1)
    return found.x, np.sqrt(scale * np.diag(bread @ scores.T @ scores @ bread).clip(0))


def token_law_robust(points: pandas.DataFrame, start: Fit, draws: int = 0) -> Fit:
    """The law on the added loss itself, non-positive ones included: soft-L1 least squares of residuals in units of their
    standard error and the law's own scatter together. start: the fit on logarithms, which gives the scatter."""
    notes = []
    part = known_size(points, notes)
    x, names = design(part, notes)
    if names != list(start.coefficients):
        raise ValueError("the points with a positive added loss determine other coefficients than all points")
    y = part.delta.to_numpy(float)
    first = np.array([start.coefficients[name] for name in names])
    scatter = max(start.measures["standard deviation of ln(added loss / law)"], 1e-3)
    unit = np.hypot(uncertainty(part), scatter * np.exp(x @ first))
    beta, error = robust(x, y, unit, first)
    ends = {n: regression.interval(b, e, len(y) - len(names)) for n, b, e in zip(names, beta, error)}
    out = Fit("robust least squares of the added loss", dict(zip(names, map(float, beta))), {"sandwich": ends}, len(part), notes)
    add_bootstrap(out, lambda rows: robust(x[rows], y[rows], unit[rows], beta)[0], part, draws)
    return out


def value(law: dict, parameters: float, tokens: float, bits: float) -> float:
    """The added loss in nats a token that a law's coefficients give; numbers or arrays.

    >>> from qtraj.laws import added_loss
    >>> round(float(added_loss.value(added_loss.PUBLISHED, parameters=7e9, tokens=1e13, bits=3)), 3)
    1.615
    """
    return np.exp(law["ln k"] + law.get("beta", 0) * np.log(tokens) - law.get("alpha", 0) * np.log(parameters)
                  - law.get("gamma", 0) * np.log(bits))


def tokens_needed(law: dict, parameters: float, bits: float, delta: float) -> float:
    """Training tokens at which the law gives that added loss (nats a token); NaN where the added loss does not grow with tokens.

    >>> from qtraj.laws import added_loss
    >>> f"{added_loss.tokens_needed(added_loss.PUBLISHED, parameters=7e9, bits=3, delta=0.2):.3g}"
    '1.87e+11'
    """
    if not law.get("beta", 0) > 0:
        return np.nan
    exponent = np.log(delta) - law["ln k"] + law.get("alpha", 0) * np.log(parameters) + law.get("gamma", 0) * np.log(bits)
    with np.errstate(over="ignore"):
        return float(np.exp(exponent / law["beta"]))


def tokens_needed_interval(fit: Fit, parameters: float, bits: float, delta: float) -> "tuple[float, float]":
    """95 % interval of tokens_needed over the bootstrap of checkpoints; (NaN, NaN) without one. Draws in which the added loss
    does not grow with tokens never reach it: inf."""
    if fit.draws is None:
        return np.nan, np.nan
    found = [tokens_needed(dict(zip(fit.coefficients, draw)), parameters, bits, delta) for draw in fit.draws]
    low, high = np.quantile(np.nan_to_num(found, nan=np.inf), (0.025, 0.975), method="closest_observation")
    return float(low), float(high)
