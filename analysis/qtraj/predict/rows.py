"""Rows that a law is asked about: what it needs of them, and what lies beyond the points that it was fitted to."""

import numpy as np
import pandas

from qtraj.laws.added_loss import COLUMNS
from qtraj.laws.forms import rate_of
from qtraj.predict.saved import Law

NEAR = 1e-6  # relative: numbers that near are equal
WIDEST = 16  # bits of a weight
FROM_ZERO = {"learning_rate": "peak_rate", "decay_tokens": "tokens"}  # may be zero, and at most the other column


def impossible(law: Law, rows: pandas.DataFrame) -> np.ndarray:
    """For each row why no model has its numbers or the law has no logarithm of them, such as `trace -5: expected a positive number`; "":
    nothing is wrong. Numbers that are missing count as right."""
    out = np.full(len(rows), "", object)
    for name in dict.fromkeys(name for name in (*law.form.columns, *COLUMNS) if name in rows):
        values, most = rows[name].to_numpy(float), np.full(len(rows), WIDEST if name == "bits" else np.inf)
        other = FROM_ZERO.get(name, "")
        if other in rows:
            most = rows[other].to_numpy(float)
        with np.errstate(invalid="ignore"):
            wrong = ((values < 0) if other else (values <= 0)) | (values > most * (1 + NEAR))
        expected = f"0 to {other}" if other else f"more than 0, at most {WIDEST}" if name == "bits" else "a positive number"
        for i in np.flatnonzero(wrong & (out == "")):
            out[i] = f"{name} {values[i]:g}: expected {expected}{f' ({most[i]:g})' if other in rows else ''}"
    return out


def complete(law: Law, rows: pandas.DataFrame) -> pandas.DataFrame:
    """The rows with what the law needs: a column that it was fitted at one value of may be left out, but not have another value.
    ValueError: there is no row, a column is missing, a number is impossible, or asks for what the law's points did not tell apart."""
    rows = rows.copy()
    if len(rows) == 0:
        raise ValueError("no row to predict")
    for name, value in law.fixed.items():
        if name not in rows:
            rows[name] = value
        if (abs(rows[name] / value - 1) > NEAR).any():
            raise ValueError(f"the law was fitted to points with {name} {value:g} alone and cannot tell others from it")
    missing = [name for name in law.form.columns if name not in rows or not np.isfinite(rows[name].astype(float)).all()]
    if missing:
        needed = [f"{name} ({law.ranges[name][0]:.4g} to {law.ranges[name][1]:.4g} at its points)" if name in law.ranges else name for name in missing]
        raise ValueError(f"the law needs {', '.join(needed)}: the option of that name, --set COLUMN=X, or a column of --rows")
    wrong = impossible(law, rows)
    for i in np.flatnonzero(wrong != ""):
        raise ValueError(f"{f'row {i + 1}: ' if len(rows) > 1 else ''}{wrong[i]}")
    if law.form.zero_at and (rows.bits >= law.form.zero_at).any():
        raise ValueError(f"the law is zero at {law.form.zero_at:g} bits and says nothing beyond")
    return rows


def outside(law: Law, rows: pandas.DataFrame) -> "list[str]":
    """For each row which columns lie outside of the range of the law's points, such as `tokens 1e+13 (at most 2.06e+11)`. A law
    with the rate over its peak sees no other rate, unless it has the peak too."""
    out = []
    unseen = {name for name in ("learning_rate", "peak_rate") if name == "learning_rate" or "peak rate" not in law.form.coefficients}
    if "rate" in law.ranges:
        rows = rows.assign(rate=np.exp(rate_of(rows)))
    for _, row in rows.iterrows():
        said = []
        for name, (low, high) in law.ranges.items():
            if name in rows and name not in unseen and np.isfinite(row[name]) and not low * (1 - NEAR) <= row[name] <= high * (1 + NEAR):
                said.append(f"{name} {row[name]:.4g} ({f'at most {high:.4g}' if row[name] > high else f'at least {low:.4g}'})")
        out.append(", ".join(said))
    return out
