#!/usr/bin/env python3
"""Fits laws of the loss that quantization adds:  fits.py RESULTS.h5|POINTS.csv ... [--quantizer NAME] [--json]

1. arXiv 2411.17691: added loss = k D^beta / (N^alpha P^gamma), by least squares on logarithms and by robust non-linear
   least squares, with bootstrap intervals over checkpoints and over training runs, beside the published coefficients.
2. The test that arXiv 2510.06213 asks for: tokens against learning rate, with fixed effects of model and bit-width.
3. A formula that predicts the relative error from bits, learning rate, curvature and the size of the change of the
   weights, fitted on all runs but one and scored on that one, beside the token law.
4. The full-precision law L = ((Nc/N)^(aN/aD) + Dc/D)^aD (arXiv 2411.17691, Eq. 3)."""

import argparse
import json
import sys
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize, stats

import points as points_of

# arXiv 2411.17691, the unified fit on GPTQ-quantized Pythia models; N without embeddings, D in tokens, P in bits.
PUBLISHED = {"ln k": np.log(0.017), "beta": 0.5251, "alpha": 0.2261, "gamma": 5.4967}
SEED = 2411


@dataclass
class Fit:
    """Coefficients by name, 95 % intervals (None: not known), and what was left out and why."""

    name: str
    coefficients: dict
    intervals: dict = field(default_factory=dict)
    n: int = 0
    notes: list = field(default_factory=list)
    measures: dict = field(default_factory=dict)


# --- linear least squares ---


def least_squares(x, y, names, clusters=None):
    """Ordinary least squares with heteroscedasticity-consistent (HC3) or, with clusters, cluster-robust (CR1) standard
    errors (MacKinnon and White 1985; Liang and Zeger 1986). Returns coefficients, half-widths of 95 % intervals and
    residuals."""
    n, k = x.shape
    inverse = np.linalg.pinv(x.T @ x)
    beta = inverse @ x.T @ y
    residual = y - x @ beta
    if clusters is None:
        leverage = np.einsum("ij,jk,ik->i", x, inverse, x).clip(0, 1 - 1e-9)
        scores, degrees = x * (residual / (1 - leverage))[:, None], n - k
        middle = scores.T @ scores
    else:
        sums = np.array([(x[clusters == c] * residual[clusters == c][:, None]).sum(0) for c in np.unique(clusters)])
        g = len(sums)
        middle = sums.T @ sums * g / max(g - 1, 1) * (n - 1) / max(n - k, 1)
        degrees = g - 1
    error = np.sqrt(np.diag(inverse @ middle @ inverse).clip(0))
    half = stats.t.ppf(0.975, degrees) * error if degrees > 0 else np.full(k, np.nan)
    return dict(zip(names, beta)), dict(zip(names, zip(beta - half, beta + half))), residual


# --- the law of the added loss ---


def usable(points, notes):
    """Points that logarithms can be taken of; says what is dropped."""
    known = np.isfinite(points[["parameters", "tokens", "bits"]].astype(float)).all(axis=1) & (points.tokens > 0)
    if (~known).any():
        notes.append(f"{int((~known).sum())} points without parameters or tokens are left out")
    positive = points.delta > 0
    if (known & ~positive).any():
        notes.append(f"{int((known & ~positive).sum())} points whose added loss is not positive are left out; this biases "
                     "the fit upwards where errors are small")
    return points[known & positive].reset_index(drop=True)


def design(points, notes):
    """Columns of the log-linear law; what does not vary cannot be told from k."""
    columns, names = [np.ones(len(points))], ["ln k"]
    for name, sign, values in (("beta", 1, points.tokens), ("alpha", -1, points.parameters), ("gamma", -1, points.bits)):
        if values.nunique() > 1:
            columns.append(sign * np.log(values.to_numpy(float)))
            names.append(name)
        else:
            notes.append(f"{name} is not fitted: all points have the same value of its variable")
    return np.column_stack(columns), names


def bootstrap(points, fit, groups, draws, rng):
    """95 % percentile intervals of fit(points) over resampled groups (an array of labels, one per point)."""
    labels = np.unique(groups)
    if len(labels) < 3:
        return {}
    where = {label: np.flatnonzero(groups == label) for label in labels}
    found = []
    for _ in range(draws):
        rows = np.concatenate([where[label] for label in rng.choice(labels, len(labels))])
        try:
            found.append(fit(points.iloc[rows]))
        except (np.linalg.LinAlgError, ValueError):
            continue
    if not found:
        return {}
    return {name: tuple(np.percentile([f[name] for f in found if name in f], (2.5, 97.5))) for name in found[0]}


def token_law(points, draws=400):
    """The law by least squares on logarithms. Intervals: HC3, and bootstraps in the measures."""
    notes = []
    part = usable(points, notes)
    x, names = design(part, notes)
    y = np.log(part.delta.to_numpy(float))
    if len(part) <= len(names):
        raise ValueError(f"{len(part)} usable points are too few for {len(names)} coefficients")
    coefficients, intervals, residual = least_squares(x, y, names)
    out = Fit("least squares on logarithms", coefficients, intervals, len(part), notes)
    out.measures["residual (ln)"] = float(np.std(residual))
    out.measures["R2"] = float(1 - residual.var() / y.var()) if y.var() > 0 else np.nan

    def again(rows):
        x, names = design(rows, [])
        return dict(zip(names, np.linalg.lstsq(x, np.log(rows.delta.to_numpy(float)), rcond=None)[0]))

    rng = np.random.default_rng(SEED)
    out.measures["bootstrap over checkpoints"] = bootstrap(part, again, (part.model + "/" + part.checkpoint).to_numpy(str), draws, rng)
    out.measures["bootstrap over runs"] = bootstrap(part, again, part.model.to_numpy(str), draws, rng)
    return out


def token_law_robust(points, start):
    """The same law on the added loss itself, by soft-L1 least squares of residuals in units of their standard errors
    (of the median added loss where none are known), from the coefficients of `start`."""
    notes = []
    known = points[np.isfinite(points[["parameters", "tokens"]].astype(float)).all(axis=1)].reset_index(drop=True)
    x, names = design(known, notes)
    y = known.delta.to_numpy(float)
    unit = known.delta_stderr.to_numpy(float)
    floor = 0.05 * np.abs(y)  # no law holds better than that
    unit = np.where(np.isfinite(unit), np.hypot(unit, floor), np.median(np.abs(y)))
    beta = np.array([start.coefficients.get(name, 0.0) for name in names])
    found = optimize.least_squares(lambda b: (np.exp(np.clip(x @ b, -700, 50)) - y) / unit, beta, loss="soft_l1", x_scale="jac")
    covariance = np.linalg.pinv(found.jac.T @ found.jac) * 2 * found.cost / max(len(y) - len(names), 1)
    half = 1.96 * np.sqrt(np.diag(covariance).clip(0))
    return Fit("robust non-linear least squares", dict(zip(names, found.x)),
               dict(zip(names, zip(found.x - half, found.x + half))), len(known), notes)


def tokens_needed(law, parameters, bits, delta):
    """Training tokens at which the law gives that added loss."""
    exponent = np.log(delta) - law["ln k"] + law.get("alpha", 0) * np.log(parameters) + law.get("gamma", 0) * np.log(bits)
    return float(np.exp(exponent / law["beta"]))


# --- tokens against learning rate ---


def within(values, groups):
    """Deviations from each group's mean: fixed effects."""
    out = np.array(values, dtype=float)
    for label in np.unique(groups):
        out[groups == label] -= out[groups == label].mean(axis=0)
    return out


def tokens_or_rate(points):
    """ln(relative error) on ln(tokens), ln(rate / greatest rate of the run) and the full-precision loss, with fixed effects
    of (run, method, bits, text). In a constant phase the rate does not vary, so that tokens are identified there.
    Intervals are clustered by run where there are five or more, else HC3."""
    notes = []
    good = (points.relative > 0) & (points.learning_rate > 0) & (points.tokens > 0) & np.isfinite(points.loss)
    if (~good).any():
        notes.append(f"{int((~good).sum())} points without a positive relative error, learning rate and tokens are left out")
    part = points[good].reset_index(drop=True)
    if len(part) == 0:
        raise ValueError("no point has a learning rate, tokens and a positive relative error")
    cell = (part.model + "/" + part.quantizer + "/" + part.bits.astype(str) + "/" + part.dataset).to_numpy(str)
    greatest = part.groupby("model").learning_rate.transform("max")
    columns = {"ln tokens": np.log(part.tokens), "ln rate": np.log(part.learning_rate / greatest), "loss": part.loss}
    x = within(np.column_stack(list(columns.values())), cell)
    y = within(np.log(part.relative.to_numpy(float)), cell)
    effects = len(np.unique(cell))
    if len(part) <= effects + x.shape[1]:
        raise ValueError(f"{len(part)} points are too few for {effects} fixed effects and {x.shape[1]} coefficients")
    runs = part.model.to_numpy(str)
    clusters = runs if len(np.unique(runs)) >= 5 else None
    if clusters is None:
        notes.append("fewer than five runs: intervals are not clustered by run and may be too narrow")
    # The group means are estimated too.
    scale = np.sqrt((len(part) - x.shape[1]) / (len(part) - x.shape[1] - effects)) if clusters is None else 1.0
    coefficients, intervals, residual = least_squares(x, y, list(columns), clusters)
    intervals = {name: tuple(coefficients[name] + scale * (end - coefficients[name]) for end in ends)
                 for name, ends in intervals.items()}
    out = Fit("partial effects on ln(relative error)", coefficients, intervals, len(part), notes)
    out.measures["R2 within"] = float(1 - (residual**2).sum() / (y**2).sum())
    return out


# --- a formula that predicts ---

FEATURES = {
    "token law": ("ln tokens", "ln parameters", "ln bits"),
    "learning rate and bits": ("ln rate", "ln bits"),
    "curvature": ("ln bits", "ln trace", "ln distance"),
    "curvature and learning rate": ("ln bits", "ln rate", "ln trace", "ln distance"),
}


def features(points):
    source = {"tokens": "tokens", "parameters": "parameters", "bits": "bits", "rate": "learning_rate", "trace": "trace",
              "sharpness": "sharpness", "distance": "distance"}
    with np.errstate(all="ignore"):
        return {f"ln {name}": np.log(points[column].to_numpy(float)) for name, column in source.items()}


def predictions(points):
    """For each set of features: fitted on all runs but one, the root mean square error of ln(relative error) on that
    one. A run alone is left out checkpoint by checkpoint instead."""
    good = points[points.relative > 0].reset_index(drop=True)
    columns, y = features(good), np.log(good.relative.to_numpy(float))
    groups = good.model.to_numpy(str) if good.model.nunique() > 1 else good.checkpoint.to_numpy(str)
    out = {}
    for name, wanted in FEATURES.items():
        x = np.column_stack([np.ones(len(good))] + [columns[w] for w in wanted])
        known = np.isfinite(x).all(axis=1)
        labels = np.unique(groups[known])
        if known.sum() <= 2 * x.shape[1] or len(labels) < 2:
            out[name] = None
            continue
        errors = []
        for label in labels:
            test = known & (groups == label)
            train = known & (groups != label)
            if train.sum() > x.shape[1]:
                beta = np.linalg.lstsq(x[train], y[train], rcond=None)[0]
                errors.append(y[test] - x[test] @ beta)
        if not errors:
            out[name] = None
            continue
        errors = np.concatenate(errors)
        out[name] = {"n": int(len(errors)), "rms error of ln(relative error)": float(np.sqrt((errors**2).mean()))}
    return out


# --- the full-precision law ---


def full_precision_law(points):
    """L = ((Nc/N)^(aN/aD) + Dc/D)^aD in its logarithms' coefficients. None where sizes or tokens do not vary enough."""
    one = points.drop_duplicates(["model", "checkpoint", "dataset"])
    one = one[np.isfinite(one.loss) & (one.tokens > 0) & (one.parameters > 0)]
    if one.parameters.nunique() < 2 or len(one) < 8:
        return None
    n, d, y = (np.log(one[name].to_numpy(float)) for name in ("parameters", "tokens", "loss"))

    def curve(b):
        ratio, power = np.exp(b[2]), np.exp(b[3])
        return power * np.logaddexp(ratio * (b[0] - n), b[1] - d)

    found = optimize.least_squares(lambda b: curve(b) - y, [np.log(4.74e19), np.log(7.63e10), np.log(0.045 / 0.399), np.log(0.399)],
                                   loss="soft_l1", f_scale=0.02, x_scale="jac")
    nc, dc, ratio, power = found.x
    return Fit("full-precision law", {"Nc": float(np.exp(nc)), "Dc": float(np.exp(dc)), "alpha_N": float(np.exp(ratio + power)),
                                      "alpha_D": float(np.exp(power))}, {}, len(one),
               measures={"residual (ln loss)": float(np.std(curve(found.x) - y))})


# --- the command ---


def show(fit, reference=None):
    print(f"\n{fit.name} ({fit.n} points)")
    for name, value in fit.coefficients.items():
        low, high = fit.intervals.get(name, (np.nan, np.nan))
        text = f"  {name:12} {value:12.5g}"
        text += f"   95 % {low:.5g} to {high:.5g}" if np.isfinite(low) else ""
        text += f"   published {reference[name]:.5g}" if reference and name in reference else ""
        print(text)
    for name, value in fit.measures.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {low:.4g} to {high:.4g}" for k, (low, high) in value.items()) or "too few"
        print(f"  {name}: {value if isinstance(value, str) else f'{value:.4g}'}")
    for note in fit.notes:
        print(f"  note: {note}")


def run(points):
    """Everything that the points are enough for; a text says why not."""
    out = {}
    try:
        out["law"] = token_law(points)
        out["robust"] = token_law_robust(points, out["law"])
    except ValueError as error:
        out["law"] = str(error)
    try:
        out["rate"] = tokens_or_rate(points)
    except ValueError as error:
        out["rate"] = str(error)
    out["predictions"] = predictions(points)
    out["full precision"] = full_precision_law(points)
    return out


def plain(thing):
    """For JSON."""
    if isinstance(thing, Fit):
        return {key: plain(value) for key, value in vars(thing).items()}
    if isinstance(thing, dict):
        return {key: plain(value) for key, value in thing.items()}
    if isinstance(thing, (tuple, list)):
        return [plain(value) for value in thing]
    if isinstance(thing, (float, np.floating)):
        return float(thing) if np.isfinite(thing) else None
    return thing


def main():
    parser = argparse.ArgumentParser(description="Fits laws of the loss that quantization adds.")
    parser.add_argument("points", nargs="+", help="cubes (.h5) or tables of points (.csv)")
    parser.add_argument("--quantizer", help="points of this method alone; default: all together")
    parser.add_argument("--dataset", help="points of this text alone")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args()
    try:
        points = points_of.read(options.points)
    except (OSError, ValueError) as error:
        sys.exit(f"fits.py: {error}")
    for name in ("quantizer", "dataset"):
        wanted = getattr(options, name)
        if wanted:
            there = sorted(set(points[name]))
            points = points[points[name] == wanted].reset_index(drop=True)
            if len(points) == 0:
                sys.exit(f"fits.py: no point has the {name} {wanted}; there are {', '.join(there)}")
    found = run(points)
    if options.json:
        print(json.dumps(plain(found), indent=1))
        return
    for name in ("law", "robust", "rate", "full precision"):
        fit = found.get(name)
        if isinstance(fit, str):
            print(f"\n{name}: {fit}")
        elif fit is not None:
            show(fit, PUBLISHED if name in ("law", "robust") else None)
    law = found["law"]
    if not isinstance(law, str) and law.coefficients.get("beta", 0) > 0:
        print("\ntokens at which this law gives 0.2 nats, at the mean size of these points:")
        size = float(np.exp(np.log(points.parameters[points.parameters > 0].to_numpy(float)).mean()))
        for bits in sorted(set(points.bits)):
            print(f"  {bits} bits: {tokens_needed(law.coefficients, size, bits, 0.2):.3g}")
    print("\npredicting runs (or checkpoints of a single run) that were not fitted:")
    for name, score in found["predictions"].items():
        print(f"  {name:28} " + ("not enough points" if score is None else
                                 f"{score['rms error of ln(relative error)']:.3f} ({score['n']} points)"))


if __name__ == "__main__":
    main()
