"""The laws of arXiv 2411.17691: the added loss of quantized models, k D^beta / (N^alpha P^gamma), and the loss of
full-precision ones. docs/fits.md has the formulas."""

from dataclasses import dataclass, field

import numpy as np
from scipy import optimize

import regression

# arXiv 2411.17691: the fit of all bit-widths together, GPTQ, Pythia. N without embeddings, D in tokens, P in bits.
PUBLISHED = {"ln k": float(np.log(0.017)), "beta": 0.5251, "alpha": 0.2261, "gamma": 5.4967}
PUBLISHED_FULL = {"Nc": 4.74e19, "Dc": 7.63e10, "alpha_N": 0.045, "alpha_D": 0.399}  # its Eq. 3
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


def checkpoints_of(points):
    """A label per checkpoint for each point, whatever the width and method."""
    return (points.model + "/" + points.checkpoint + "/" + points.tokens.astype(str)).to_numpy(str)


def add_bootstrap(out, fit, points, draws):
    """Intervals of fit(rows) over checkpoints and over training runs (with their branches), where there are enough."""
    rng = np.random.default_rng(SEED)
    for name, groups in (("bootstrap over checkpoints", checkpoints_of(points)), ("bootstrap over runs", points.family.to_numpy(str))):
        found = regression.bootstrap(fit, groups, draws, rng)
        if found is None:
            if draws:
                few = f"there are only {len(np.unique(groups))}"
                out.notes.append(f"no {name}: {few if len(np.unique(groups)) < 3 else 'most draws do not determine the law'}")
            continue
        out.intervals[name] = {c: regression.percentiles(found[:, i]) for i, c in enumerate(out.coefficients)}
        if name == "bootstrap over checkpoints":
            out.draws = found


# --- the added loss ---


def known_size(points, notes):
    """Points with parameters, tokens and bits."""
    known = np.isfinite(points[["parameters", "tokens", "bits"]].astype(float)).all(axis=1)
    known &= (points.tokens > 0) & (points.parameters > 0) & (points.bits > 0)
    if (~known).any():
        notes.append(f"{int((~known).sum())} points without parameters, tokens or bits are left out")
    return points[known].reset_index(drop=True)


def uncertainty(points):
    """Uncertainty of the added losses by text and, where there are replicates, calibration together; 0 where neither is known."""
    return np.hypot(*(np.nan_to_num(points[name].to_numpy(float)) for name in ("delta_stderr", "delta_deviation")))


def positive(points, notes):
    """Points whose added loss has a logarithm."""
    good = points.delta > 0
    if (~good).any():
        notes.append(f"{int((~good).sum())} points whose added loss is not positive are left out; where many are, the law is "
                     "too high at small losses")
    unsure = good & (points.delta < 2 * uncertainty(points))
    if unsure.any():
        notes.append(f"{int(unsure.sum())} points whose added loss is below twice its uncertainty have little weight")
    return points[good].reset_index(drop=True)


def design(points, notes):
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


def token_law(points, draws=400):
    """The law by least squares on logarithms. ValueError: the points do not determine it."""
    notes = []
    part = positive(known_size(points, notes), notes)
    x, names = design(part, notes)
    y = np.log(part.delta.to_numpy(float))
    weights = regression.weights_of_logarithms(x, part.delta.to_numpy(float), uncertainty(part))
    x, y = regression.scaled(weights / weights.mean(), x, y)
    beta, error, residual = regression.least_squares(x, y)
    ends = {n: regression.interval(b, e, len(y) - len(names)) for n, b, e in zip(names, beta, error)}
    out = Fit("least squares on logarithms", dict(zip(names, map(float, beta))), {"HC3": ends}, len(part), notes)
    out.measures["standard deviation of ln(added loss / law)"] = float(np.sqrt((residual**2).sum() / (len(y) - len(names))))
    around = y - x[:, 0] * ((x[:, 0] @ y) / (x[:, 0] @ x[:, 0]))  # of a law that is a constant
    out.measures["R2"] = float(1 - residual @ residual / (around @ around)) if around.any() else np.nan
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


def token_law_robust(points, start, draws=0):
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


def value(law, parameters, tokens, bits):
    """The added loss that a law's coefficients give."""
    return np.exp(law["ln k"] + law.get("beta", 0) * np.log(tokens) - law.get("alpha", 0) * np.log(parameters)
                  - law.get("gamma", 0) * np.log(bits))


def tokens_needed(law, parameters, bits, delta):
    """Training tokens at which the law gives that added loss; NaN where the added loss does not grow with tokens."""
    if not law.get("beta", 0) > 0:
        return np.nan
    exponent = np.log(delta) - law["ln k"] + law.get("alpha", 0) * np.log(parameters) + law.get("gamma", 0) * np.log(bits)
    with np.errstate(over="ignore"):
        return float(np.exp(exponent / law["beta"]))


def tokens_needed_interval(fit, parameters, bits, delta):
    """95 % interval of tokens_needed over the bootstrap of checkpoints; (NaN, NaN) without one. Draws in which the added loss
    does not grow with tokens never reach it: inf."""
    if fit.draws is None:
        return np.nan, np.nan
    found = [tokens_needed(dict(zip(fit.coefficients, draw)), parameters, bits, delta) for draw in fit.draws]
    low, high = np.quantile(np.nan_to_num(found, nan=np.inf), (0.025, 0.975), method="closest_observation")
    return float(low), float(high)


# --- the loss in full precision ---


def solve_full_precision(n, d, y):
    """Logarithms of Nc, Dc, alpha_N and alpha_D, and the residuals, from the logarithms of parameters, tokens and losses."""

    def curve(b):
        return np.exp(b[3]) * np.logaddexp(np.exp(b[2]) * (b[0] - n), b[1] - d)

    start = [np.log(4.74e19), np.log(7.63e10), np.log(0.045 / 0.399), np.log(0.399)]
    found = optimize.least_squares(lambda b: curve(b) - y, start, loss="soft_l1", f_scale=0.02, x_scale="jac", max_nfev=2000)
    nc, dc, ratio, power = found.x
    return np.array([nc, dc, ratio + power, power]), curve(found.x) - y


def full_precision_value(law, parameters, tokens):
    """The loss that the coefficients of the full-precision law give."""
    ratio = law["alpha_N"] / law["alpha_D"]
    return ((law["Nc"] / parameters) ** ratio + law["Dc"] / tokens) ** law["alpha_D"]


def full_precision_points(points):
    """One point a checkpoint and text."""
    one = points.drop_duplicates(["model", "checkpoint", "tokens", "dataset"])
    return one[(one.loss > 0) & (one.tokens > 0) & (one.parameters > 0)].reset_index(drop=True)


def full_precision_law(points, draws=100):
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
    out = Fit("full-precision law", dict(zip(PUBLISHED_FULL, map(float, np.exp(found)))), {}, len(one))
    out.measures["standard deviation of ln(loss / law)"] = float(np.std(residual))
    add_bootstrap(out, lambda rows: solve_full_precision(n[rows], d[rows], y[rows])[0], one, draws)
    out.intervals = {kind: {name: tuple(float(end) for end in np.exp(ends)) for name, ends in intervals.items()}
                     for kind, intervals in out.intervals.items()}
    out.draws = None  # they are logarithms
    return out
