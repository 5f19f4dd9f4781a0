"""Predictions at points."""

import numpy as np
import pandas
from scipy import stats

from qtraj.laws.dynamics import with_dynamics
from qtraj.laws.fit import uncertainty
from qtraj.laws.full_precision import full_precision_value
from qtraj.laws.regression import CLEAR
from qtraj.predict.levels import levels
from qtraj.predict.rows import complete, impossible, outside
from qtraj.predict.saved import Law


def predict(law: Law, rows: pandas.DataFrame, full_at: float = 0.2) -> pandas.DataFrame:
    """What the law says at rows with the columns parameters, tokens, bits, and the others that it needs: the added loss (nats a token)
    with the 95 % interval low to high for a new model and law_low to law_high of the law itself; likelihood, exp(-delta); loss, in full
    precision, and loss_quantized, where the law has one of the full-precision loss; level, the tokens as a part of those at which the
    added loss is full_at, and trained, that in words (levels); outside: what is beyond the points of the law.

    >>> rows = pandas.DataFrame({"parameters": [1e9, 7e9], "tokens": [1e11, 1e13], "bits": [3, 3]})
    >>> found = qtraj.predict.predict(qtraj.predict.PUBLISHED, rows)
    >>> found[["delta", "level", "loss_quantized"]].round(3).values.tolist()
    [[0.223, 1.234, 3.303], [1.615, 53.404, 4.385]]
    >>> found.outside.to_list()
    ['', 'tokens 1e+13 (at most 2.06e+11)']
    """
    rows = complete(law, rows)
    value, out = law.form.logarithm(law.values, rows), rows.copy()
    out["delta"] = np.exp(value)
    for kind, unseen in (("", True), ("law_", False)):
        low = high = np.full(len(rows), np.nan)
        if law.spread is not None:
            low, high = law.spread.interval(value, law.form.slopes(law.values, rows), unseen)
        out[f"{kind}low"], out[f"{kind}high"] = np.exp(low), np.exp(high)
    out["likelihood"] = np.exp(-out.delta)
    if law.full_precision and {"parameters", "tokens"} <= set(rows):
        out["loss"] = full_precision_value(law.full_precision, rows.parameters, rows.tokens)
        out["loss_quantized"] = out.loss + out.delta
    out = levels(law, out, full_at) if "beta" in law.form.coefficients and "decay" not in law.form.coefficients else out.assign(level=np.nan, trained="")
    return out.assign(outside=outside(law, rows))


def score(law: Law, points: pandas.DataFrame) -> dict:
    """How well the law predicts points that it was not fitted to (qtraj.points): root mean square error of ln(added loss), the mean of
    the error with a 95 % interval over runs (from two runs on), and how many of the 95 % intervals hold the measured value. Points that
    lack what the law needs, and those where it predicts less than CLEAR standard errors, are counted and left out: what it predicts decides,
    since to leave out what noise made small would keep what it made large. Of the others, those whose added loss is not positive are outside
    of their intervals, and have no logarithm."""
    points = with_dynamics(points)
    known = np.isfinite(points[[name for name in law.form.columns if name in points]].astype(float)).all(axis=1)
    known &= impossible(law, points) == ""  # such as an estimate of a trace that is negative
    good = points[known].reset_index(drop=True)
    found = predict(law, good) if len(good) else good
    told = (found.delta.to_numpy(float) >= CLEAR * uncertainty(good)) if len(good) else np.array([], bool)
    good, found = good[told].reset_index(drop=True), found[told].reset_index(drop=True)
    delta, predicted = good.delta.to_numpy(float), found.delta.to_numpy(float)
    positive = delta > 0
    if not positive.any():
        raise ValueError("no point has a positive added loss and everything that the law needs")
    error = np.log(delta[positive] / predicted[positive])
    out = {"points": len(good), "incomplete": int((~known).sum()), "not told from zero": int((~told).sum()), "not positive": int((~positive).sum()),
           "runs": int(good.family.nunique()), "outside": int((found.outside != "").sum()),
           "rms error of ln(added loss)": float(np.sqrt((error**2).mean())), "mean of ln(measured / predicted)": float(error.mean())}
    means = pandas.Series(error).groupby(good.family.to_numpy()[positive]).mean()
    if len(means) > 1:
        half = stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
        out["its 95 % over runs"] = (float(means.mean() - half), float(means.mean() + half))
    if law.spread is not None:
        wide, free = law.spread.error(law.form.slopes(law.values, complete(law, good)))
        wide = np.hypot(wide, uncertainty(good) / np.maximum(predicted, delta))
        inside = np.zeros(len(good), bool)
        inside[positive] = abs(error) <= (stats.t.ppf(0.975, np.maximum(free, 1)) * wide)[positive]
        out["inside of their 95 % intervals"] = float(inside.mean())
    return out
