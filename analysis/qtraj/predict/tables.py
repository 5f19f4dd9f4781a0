"""Tokens until an added loss: Table 1 of arXiv 2411.17691 from any law."""

from collections.abc import Sequence

import numpy as np
import pandas

from qtraj.predict.rows import complete
from qtraj.predict.saved import Law

SIZES = (1e9, 7e9, 13e9, 70e9, 405e9)
LOSSES = (0.2, 0.3, 0.4, 0.5)
WIDTHS = (2, 3, 4)


def tokens_until(law: Law, rows: pandas.DataFrame, delta: "float | Sequence[float]") -> pandas.DataFrame:
    """The rows with the training tokens at which the law gives the added loss delta (nats a token), and their 95 % interval low to high:
    the tokens at which the interval of the law holds that loss (Fieller 1954), 0 and inf as an end where it does so without end; NaN
    where the added loss does not grow with tokens. ValueError: the law has no
    tokens in it, or also depends on how many of them are in the decay.

    >>> rows = pandas.DataFrame({"parameters": [7e9, 70e9], "bits": 3})
    >>> [f"{tokens:.3g}" for tokens in qtraj.predict.tokens_until(qtraj.predict.PUBLISHED, rows, 0.2).tokens]
    ['1.87e+11', '5.05e+11']
    """
    if "beta" not in law.form.coefficients or "decay" in law.form.coefficients:
        raise ValueError("the law does not depend on tokens alone: it cannot say when an added loss is reached")
    rows = complete(law, rows.assign(tokens=1.0))
    place, target = law.form.names.index("beta"), np.log(np.broadcast_to(delta, len(rows)))

    rest, beta = target - law.form.logarithm(law.values, rows), law.values[place]
    out = rows.assign(delta=np.exp(target), tokens=np.nan, low=np.nan, high=np.nan)
    if beta > 0:
        with np.errstate(over="ignore"):
            out["tokens"] = np.exp(rest / beta)
            if law.spread is not None:
                ends = [law.spread.reached(one, beta, place, at) for one, at in zip(rest, law.form.slopes(law.values, rows))]
                out["low"], out["high"] = np.exp(np.array(ends)).T
    return out


def table_of_tokens(law: Law, sizes: "Sequence[float]" = SIZES, losses: "Sequence[float]" = LOSSES,
                    widths: "Sequence[float]" = WIDTHS) -> pandas.DataFrame:
    """Table 1: tokens until each added loss for each size (parameters) and bit-width, with exp(-added loss), the part of the likelihood
    of a token that is left. A law of one size or width has rows for that alone."""
    sizes = [law.fixed["parameters"]] if "parameters" in law.fixed else sizes
    widths = [law.fixed["bits"]] if "bits" in law.fixed else widths
    rows = pandas.DataFrame([(size, bits, loss) for size in sizes for loss in losses for bits in widths], columns=["parameters", "bits", "delta"])
    found = tokens_until(law, rows[["parameters", "bits"]], rows.delta.to_numpy())
    return found.assign(likelihood=np.exp(-found.delta))[["parameters", "delta", "likelihood", "bits", "tokens", "low", "high"]]
