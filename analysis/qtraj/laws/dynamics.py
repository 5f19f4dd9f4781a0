"""A law of the added loss from what a run's training did and what qtraj measures along it, and the choice between forms of the law.
Every score is of runs that neither the coefficients nor the choice have seen."""

import numpy as np
import pandas

from qtraj.laws import regression
from qtraj.laws.added_loss import COLUMNS, Fit, curved, fit_form, known_size, solve, with_logarithms
from qtraj.laws.fit import checkpoints_of, uncertainty
from qtraj.laws.forms import FORMS, LAW, TERMS, Form

AT_PEAK = 0.999  # of a run's greatest learning rate: it has not begun to fall
ENDED = 0.1001  # of it: at most so much where a decay has ended
CANDIDATES = ("beta", "alpha", "gamma", "rate", "peak rate", "decay", "trace", "sharpness", "distance", "second order")
LEAST_POINTS = 12
SINGULAR = 1e12  # condition of the normal equations beyond which coefficients are not determined
LEAST = 1e-9  # of the mean squared error without any variable: what rounding may leave
MARGIN = 1.15  # of the least mean squared error, below which a shorter formula is taken
ALIKE = 1.001  # forms whose errors are as near as that count as equally good: the first is named


def with_dynamics(points: pandas.DataFrame) -> pandas.DataFrame:
    """The points with the columns peak_rate, the greatest learning rate of the run, and decay_tokens, the training tokens since it was
    last at its peak; 0 at the peak.

    >>> points = qtraj.laws.with_dynamics(qtraj.points("two_models.h5"))
    >>> points[points.model == "OLMo2-7B"].decay_tokens.iloc[[0, -1]].round(-7).to_list()
    [0.0, 7140000000.0]
    """
    out = points.copy()
    out["peak_rate"] = out.groupby("family").learning_rate.transform("max")
    out["decay_tokens"] = np.nan
    at_peak = out.learning_rate >= AT_PEAK * out.peak_rate
    for model, rows in out.groupby("model", sort=False):
        first = rows.tokens.min()
        line = at_peak & ((out.model == model) | ((out.family == rows.family.iloc[0]) & (out.tokens < first)))
        peaks = np.unique(np.append(out.tokens[line & np.isfinite(out.tokens)], 0.0))
        there = rows.index[np.isfinite(rows.tokens) & np.isfinite(rows.learning_rate)]
        tokens = out.tokens[there].to_numpy(float)
        out.loc[there, "decay_tokens"] = tokens - peaks[np.searchsorted(peaks, tokens, side="right") - 1]
    return out


def left_out_groups(points: pandas.DataFrame) -> "tuple[str, np.ndarray]":
    """What is left out at a time: a run with its branches, or of fewer than three runs a checkpoint."""
    return ("run", points.family.to_numpy(str)) if points.family.nunique() > 2 else ("checkpoint", checkpoints_of(points))


def squares_of(form, rows, y, weights, groups):
    """Mean squared error of the logarithm of each group, predicted by the points of the others; inf where they do not determine it."""
    out, x = [], form.terms(rows)
    for label in np.unique(groups):
        train = groups != label
        try:
            values = solve(*regression.scaled(weights[train], x[train], y[train]))
            if form.width():
                values = curved(form, rows[train], y[train], weights[train], values)
            error = y[~train] - form.logarithm(values, rows[~train])
            out.append(np.average(error**2, weights=weights[~train]))
        except np.linalg.LinAlgError:
            out.append(np.inf)
    return np.array(out)


def usable(points, forms):
    """Points that all forms can use, and the forms with the coefficients that vary there. ValueError: they are too few."""
    notes = []
    columns = list(dict.fromkeys(COLUMNS + tuple(column for form in forms for column in form.columns)))
    part = known_size(points, notes, columns)
    for name in dict.fromkeys(name for form in forms for name in form.coefficients):
        known = np.isfinite(TERMS[name][0](part))
        if not known.all():
            notes.append(f"{int((~known).sum())} points whose {name} is not positive, and has no logarithm, are left out")
            part = part[known].reset_index(drop=True)
    limit = min([form.zero_at for form in forms if form.zero_at], default=np.inf)
    part = part[part.bits < limit].reset_index(drop=True)
    part = with_logarithms(part, forms[0].terms(part), notes)
    if len(part) < LEAST_POINTS:
        raise ValueError(f"{len(part)} points with {', '.join(columns)} and an added loss clear of zero are too few for all forms, which take "
                         f"{LEAST_POINTS}; fit one form, or give more checkpoints or bit-widths")
    _, groups = left_out_groups(part)
    if len(np.unique(groups)) < 3:
        raise ValueError("a single run with fewer than three checkpoints")
    return part, [form.without([name for name in form.coefficients if np.ptp(TERMS[name][0](part)) == 0]) for form in forms], notes


def weights_of(form, part):
    return regression.weights_of_logarithms(form.terms(part), part.delta.to_numpy(float), uncertainty(part))


def compare_forms(points: pandas.DataFrame, forms: "list[Form] | None" = None) -> dict:
    """Forms of the law by how well they predict a run that is left out, all on the same points: root mean square errors of ln(added
    loss; inf: not determined), the name of the best, and of all that are as good (alike). ValueError: the points are too few.

    >>> points = qtraj.points("two_models.h5")
    >>> found = qtraj.laws.compare_forms(points[points.quantizer == "gptq"].reset_index(drop=True))
    >>> found["left out at a time"], round(found["scores"]["power of the bit-width"], 3)
    ('checkpoint', 0.462)
    """
    part, forms, notes = usable(points, forms or list(FORMS.values()))
    unit, groups = left_out_groups(part)
    y, weights = np.log(part.delta.to_numpy(float)), weights_of(forms[0], part)
    scores = {form.name: float(np.sqrt(squares_of(form, part, y, weights, groups).mean())) for form in forms}
    alike = [name for name, score in scores.items() if score <= ALIKE * min(scores.values())]
    return {"left out at a time": unit, "n": len(part), "scores": scores, "best": alike[0], "alike": alike, "notes": notes}


class Folds:
    """Sums of squares and products of terms and logarithms by group, from which least squares without a group follow at once."""

    def __init__(self, x, y, weights, groups):
        size = np.sqrt((x**2).mean(axis=0))  # 0: of a term that is 0 everywhere, with which nothing is determined
        z = np.column_stack([x / np.where(size > 0, size, 1), y]) * np.sqrt(weights)[:, None]
        labels, at = np.unique(groups, return_inverse=True)
        self.parts = np.array([z[at == i].T @ z[at == i] for i in range(len(labels))])
        self.weight = np.bincount(at, weights)

    def without(self, group):
        """The folds of the other groups."""
        out = object.__new__(Folds)
        out.parts, out.weight = np.delete(self.parts, group, axis=0), np.delete(self.weight, group)
        return out

    def squares(self, columns, only=None):
        """Mean squared error of each group, or of one, predicted by the others; inf where they do not determine it."""
        columns = [0, *columns]
        held = self.parts if only is None else self.parts[only:only + 1]
        rest = self.parts.sum(axis=0) - held
        a, b = rest[:, columns][:, :, columns], rest[:, columns, -1]
        good = np.linalg.cond(a) < SINGULAR
        beta = np.zeros(b.shape)
        if good.any():
            beta[good] = np.linalg.solve(a[good], b[good][..., None])[..., 0]
        found = (held[:, -1, -1] - 2 * (beta * held[:, columns, -1]).sum(axis=1)
                 + np.einsum("gi,gij,gj->g", beta, held[:, columns][:, :, columns], beta))
        found = np.where(good, np.maximum(found, 0.0), np.inf)  # rounding may leave less than nothing
        return found / (self.weight if only is None else self.weight[only])


def choose(folds, count):
    """Columns 1 to count that predict groups that are left out: added one after the other, the best first, to the least mean squared
    error; then taken away, the least useful first, while the error is at most MARGIN times the least."""
    if len(folds.parts) < 3:
        return ()

    least = LEAST * folds.squares(()).mean()

    def error_of(chosen):
        return max(folds.squares(chosen).mean(), least)

    path = [()]
    while len(path) <= count:
        more = [(*path[-1], i) for i in range(1, count + 1) if i not in path[-1]]
        best = min(more, key=error_of)
        if not np.isfinite(error_of(best)):
            break
        path.append(best)
    chosen = min(path, key=error_of)
    limit = MARGIN * error_of(chosen)
    while chosen:
        fewer = min(([i for i in chosen if i != gone] for gone in chosen), key=error_of)
        if error_of(fewer) > limit:
            break
        chosen = fewer
    return tuple(chosen)


def dynamics_law(points: pandas.DataFrame, draws: int = 0) -> dict:
    """ln(added loss) on tokens, parameters, bit-width, learning rate over its peak, peak, share of tokens in the decay, trace, sharpness,
    change of the weights and second-order prediction: which of them is chosen by predicting runs that are left out. The score repeats
    the choice without each run that it scores; beside it the token law's on the same points. points: of one method and text; a column that
    they lack was not measured.

    >>> points = qtraj.points("two_models.h5")
    >>> found = qtraj.laws.dynamics_law(points[points.quantizer == "gptq"].reset_index(drop=True))
    >>> found["law"].form.coefficients
    ('distance',)
    """
    points = with_dynamics(points)
    measured = [name for name in CANDIDATES if set(TERMS[name][1]) <= set(points) and np.isfinite(TERMS[name][0](points)).any()]
    part, (form,), notes = usable(points, [Form("dynamics", tuple(measured))])
    unit, groups = left_out_groups(part)
    token_form = Form("", tuple(name for name in LAW if name in form.coefficients))
    y, weights = np.log(part.delta.to_numpy(float)), weights_of(token_form, part)
    folds, names = Folds(form.terms(part), y, weights, groups), np.array(form.coefficients, dtype=object)
    choices = [choose(folds.without(i), len(names)) for i in range(len(folds.parts))]
    squares = np.concatenate([folds.squares(chosen, i) for i, chosen in enumerate(choices)])
    chosen, *choices = [tuple(names[np.array(one, int) - 1]) for one in (choose(folds, len(names)), *choices)]
    token = folds.squares([1 + form.coefficients.index(name) for name in token_form.coefficients])
    law: Fit = fit_form(part, Form("dynamics", chosen), draws)
    return {"law": law, "left out at a time": unit, "n": len(part), "rms error of ln(added loss)": float(np.sqrt(np.mean(squares))),
            "token law": float(np.sqrt(token.mean())), "chosen as often": {name: sum(name in one for one in choices) / len(choices) for name in chosen},
            "candidates": list(form.coefficients), "notes": notes}
