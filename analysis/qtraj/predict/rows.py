"""Rows that a law is asked about: what it needs of them, and what lies beyond the points that it was fitted to."""

import numpy as np
import pandas

from qtraj.predict.saved import Law

NEAR = 1e-6  # relative: numbers that near are equal


def complete(law: Law, rows: pandas.DataFrame) -> pandas.DataFrame:
    """The rows with what the law needs: a column that it was fitted at one value of may be left out, but not have another value.
    ValueError: a column is missing, or asks for what the law's points did not tell apart."""
    rows = rows.copy()
    for name, value in law.fixed.items():
        if name not in rows:
            rows[name] = value
        if (abs(rows[name] / value - 1) > NEAR).any():
            raise ValueError(f"the law was fitted to points with {name} {value:g} alone and cannot tell others from it")
    missing = [name for name in law.form.columns if name not in rows or not np.isfinite(rows[name].astype(float)).all()]
    if missing:
        needed = [f"{name} ({law.ranges[name][0]:.4g} to {law.ranges[name][1]:.4g} at its points)" if name in law.ranges else name for name in missing]
        raise ValueError(f"the law needs {', '.join(needed)}: the option of that name, --set COLUMN=X, or a column of --rows")
    if law.form.zero_at and (rows.bits >= law.form.zero_at).any():
        raise ValueError(f"the law is zero at {law.form.zero_at:g} bits and says nothing beyond")
    return rows


def outside(law: Law, rows: pandas.DataFrame) -> "list[str]":
    """For each row which columns lie outside of the range of the law's points, such as `tokens 1e+13 (at most 2.06e+11)`."""
    out = []
    for _, row in rows.iterrows():
        said = []
        for name, (low, high) in law.ranges.items():
            if name in rows and np.isfinite(row[name]) and not low * (1 - NEAR) <= row[name] <= high * (1 + NEAR):
                said.append(f"{name} {row[name]:.4g} ({f'at most {high:.4g}' if row[name] > high else f'at least {low:.4g}'})")
        out.append(", ".join(said))
    return out
