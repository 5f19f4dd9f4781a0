"""The law of arXiv 2411.17691 for the loss that quantization adds, k D^beta / (N^alpha P^gamma), the token law. docs/fits.md has the
formulas."""

from collections.abc import Sequence

import numpy as np
import pandas
from scipy import optimize

from qtraj.laws import regression
from qtraj.laws.fit import BY_RUN, Fit, add_resampled, uncertainty
from qtraj.laws.forms import POWER, Form, rate_of
from qtraj.laws.spread import spread_of

# The fit of all bit-widths together, GPTQ, Pythia. N without embeddings, D in tokens, P in bits.
PUBLISHED = {"ln k": float(np.log(0.017)), "beta": 0.5251, "alpha": 0.2261, "gamma": 5.4967}
COLUMNS = ("parameters", "tokens", "bits")


def known_size(points: pandas.DataFrame, notes: list, columns: "Sequence[str]" = COLUMNS) -> pandas.DataFrame:
    """Points with positive parameters, tokens and bits, and numbers in the other columns."""
    known = np.isfinite(points[list(columns)].astype(float)).all(axis=1)
    known &= (points[[name for name in columns if name in COLUMNS]] > 0).all(axis=1)
    if (~known).any():
        notes.append(f"{int((~known).sum())} points without {', '.join(columns[:-1])} or {columns[-1]} are left out")
    return points[known].reset_index(drop=True)


def with_logarithms(points: pandas.DataFrame, x: np.ndarray, notes: list) -> pandas.DataFrame:
    """The points that least squares of ln(added loss) on x takes (regression.clear_of_zero), and notes of how many it leaves out."""
    delta, error = points.delta.to_numpy(float), uncertainty(points)
    good = regression.clear_of_zero(x, delta, error)
    negative, small = ~(delta > 0), ~good & (delta > 0)
    if negative.any():
        notes.append(f"{int(negative.sum())} points whose added loss is not positive are left out"
                     + ("" if (error[negative] > 0).all() else "; where many are, the law is too high at small losses"))
    if small.any():
        notes.append(f"{int(small.sum())} points where the law is below {regression.CLEAR:g} standard errors are left out")
    return points[good].reset_index(drop=True)


def determined(points: pandas.DataFrame, form: Form, notes: list) -> Form:
    """The form with the coefficients that the points determine; what does not vary cannot be told from k."""
    if len(points) == 0:
        raise ValueError("there is no usable point")
    x = form.terms(points)
    same = [name for i, name in enumerate(form.names) if i and np.ptp(x[:, i]) == 0]
    notes.extend(f"{name} is not fitted: its variable has one value in all points" for name in same)
    form = form.without(same)
    if len(points) <= len(form.names):
        raise ValueError(f"usable points: {len(points)}, which are too few for coefficients: {', '.join(form.names)}")
    if np.linalg.matrix_rank(form.terms(points)) < len(form.names):
        raise ValueError(f"the points do not tell {', '.join(form.names)} apart: their variables change together")
    return form


def design(points: pandas.DataFrame, notes: list) -> "tuple[np.ndarray, list[str]]":
    """Columns of the token law in logarithms and their names."""
    form = determined(points, POWER, notes)
    return form.terms(points), form.names


def solve(x, y):
    """Least squares; LinAlgError if the coefficients are not determined."""
    beta, _, rank, _ = np.linalg.lstsq(x, y, rcond=1e-10)
    if rank < x.shape[1]:
        raise np.linalg.LinAlgError("singular")
    return beta


def curved(form: Form, rows: pandas.DataFrame, y: np.ndarray, weights: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Coefficients of a form by weighted least squares of logarithms; LinAlgError if the points do not determine them."""
    x, y_scaled = regression.scaled(weights, form.terms(rows), y)
    if not form.width():
        return solve(x, y_scaled)
    root, place = np.sqrt(weights), form.names.index(form.width())
    start = np.array(start, float)
    start[place] = max(start[place], 1e-3)
    low = np.full(len(start), -np.inf)
    low[place] = 1e-9  # below, the added loss would not fall with the bit-width
    found = optimize.least_squares(lambda b: root * (form.logarithm(b, rows) - y), start, x_scale="jac", bounds=(low, np.inf),
                                   jac=lambda b: root[:, None] * form.slopes(b, rows))
    return found.x


def fit_form(points: pandas.DataFrame, form: Form, draws: int = 0) -> Fit:
    """A form of the law by least squares on logarithms; draws: of each bootstrap. ValueError: the points do not determine it.

    >>> points = qtraj.points("two_models.h5")
    >>> form = qtraj.laws.FORMS["exponential in the bit-width"]
    >>> law = qtraj.laws.fit_form(points[points.quantizer == "gptq"].reset_index(drop=True), form)
    >>> {name: round(value, 3) for name, value in law.coefficients.items()}  # of ln(nats a token)
    {'ln k': -6.172, 'beta': 0.311, '1/gamma': 1.341}
    """
    notes = []
    part = known_size(points, notes, tuple(dict.fromkeys(COLUMNS + tuple(form.columns))))
    if form.zero_at:
        part = part[part.bits < form.zero_at].reset_index(drop=True)
    part = with_logarithms(part, form.terms(part), notes)
    form = determined(part, form, notes)
    y = np.log(part.delta.to_numpy(float))
    weights = regression.weights_of_logarithms(form.terms(part), part.delta.to_numpy(float), uncertainty(part))
    weights = weights / weights.mean()
    values = curved(form, part, y, weights, solve(*regression.scaled(weights, form.terms(part), y)))
    x = form.slopes(values, part)
    found = regression.least_squares(x, y - form.logarithm(values, part) + x @ values, weights)
    ends = {name: (float(low), float(high)) for name, (low, high) in zip(form.names, found.conf_int())}
    out = Fit("least squares on logarithms", dict(zip(form.names, map(float, values))), {"HC3": ends}, len(part), notes, form=form)
    if not np.isfinite(list(ends.values())).any():
        notes.append("a point alone determines a coefficient: HC3 gives no interval")
    out.measures["standard deviation of ln(added loss / law)"] = float(np.sqrt(found.scale))
    out.measures["R2"] = float(found.rsquared) if found.centered_tss > 0 else np.nan
    out.spread = spread_of(x, y - form.logarithm(values, part), weights, part.family.to_numpy(str))
    if out.spread is None:
        notes.append("one run: how much others differ from it is not known, so that predictions have no interval")
    out.ranges = {name: (float(part[name].min()), float(part[name].max())) for name in dict.fromkeys(list(COLUMNS) + form.columns)}
    if "rate" in form.coefficients:  # what the law sees of a rate
        ratio = np.exp(rate_of(part))
        out.ranges["rate"] = (float(ratio.min()), float(ratio.max()))
    if form.width():
        add_resampled(out, lambda rows: curved(form, part.iloc[rows], y[rows], weights[rows], values), part, draws)
    else:
        x, y = regression.scaled(weights, x, y)
        add_resampled(out, lambda rows: solve(x[rows], y[rows]), part, draws)
    return out


def token_law(points: pandas.DataFrame, draws: int = 400) -> Fit:
    """The token law by least squares on logarithms: fit_form of a power of the bit-width.

    >>> points = qtraj.points("two_models.h5")
    >>> law = qtraj.laws.token_law(points[points.quantizer == "gptq"].reset_index(drop=True), draws=0)
    >>> {name: round(value, 3) for name, value in law.coefficients.items()}  # of ln(nats a token)
    {'ln k': -5.074, 'beta': 0.311, 'gamma': 4.66}
    """
    return fit_form(points, POWER, draws)


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
    add_resampled(out, lambda rows: robust(x[rows], y[rows], unit[rows], beta)[0], part, draws, BY_RUN in start.intervals)
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
    """95 % interval of tokens_needed: where there are several runs, that of the law where runs differ (Spread.reached); of one run over the bootstrap
    of checkpoints, whose draws in which the added loss does not grow with tokens never reach it: inf. (NaN, NaN) without either."""
    if fit.spread is not None and fit.coefficients.get("beta", 0) > 0:
        row, values = pandas.DataFrame({"parameters": [parameters], "tokens": 1.0, "bits": [bits]}), np.array(list(fit.coefficients.values()))
        rest = np.log(delta) - fit.form.logarithm(values, row)[0]
        with np.errstate(over="ignore"):
            return tuple(map(float, np.exp(fit.spread.reached(rest, fit.coefficients["beta"], fit.form.names.index("beta"), fit.form.slopes(values, row)[0]))))
    if fit.draws is None:
        return np.nan, np.nan
    found = [tokens_needed(dict(zip(fit.coefficients, draw)), parameters, bits, delta) for draw in fit.draws]
    low, high = np.quantile(np.nan_to_num(found, nan=np.inf), (0.025, 0.975), method="closest_observation")
    return float(low), float(high)
