"""Training levels: tokens over those until the added loss of a fully trained model. Figure 11 of arXiv 2411.17691 from any law."""

from collections.abc import Sequence

import numpy as np
import pandas

from qtraj.predict.saved import Law
from qtraj.predict.tables import WIDTHS, tokens_until

MAP_SIZES, MAP_TOKENS = (1e8, 1e12), (1e9, 1e14)
FULLY, UNDER, UNSURE = "fully trained", "undertrained", "cannot tell"


def levels(law: Law, rows: pandas.DataFrame, full_at: float = 0.2) -> pandas.DataFrame:
    """The rows with two columns: level, the tokens as a part of those at which the law gives the added loss full_at (nats a token), and
    trained, in words: `fully trained` beyond the 95 % interval of those tokens (where there is none: beyond them), `undertrained` below, else
    `cannot tell`; empty where the added loss does not grow with tokens. ValueError: the law cannot say when an added loss is reached.

    >>> rows = pandas.DataFrame({"parameters": [1e9, 7e10], "tokens": [1e12, 1e11], "bits": 3})
    >>> qtraj.predict.levels(qtraj.predict.PUBLISHED, rows)[["level", "trained"]].round(2).values.tolist()
    [[12.34, 'fully trained'], [0.2, 'undertrained']]
    """
    until, tokens = tokens_until(law, rows, full_at), rows.tokens.to_numpy(float)
    low, high = (until[end].fillna(until.tokens).to_numpy() for end in ("low", "high"))
    words = np.select([np.isnan(until.tokens.to_numpy()), tokens >= high, tokens < low], ["", FULLY, UNDER], UNSURE)
    return rows.assign(level=tokens / until.tokens.to_numpy(), trained=words)


def level_map(law: Law, widths: "Sequence[float]" = WIDTHS, full_at: float = 0.2, points: int = 41) -> pandas.DataFrame:
    """Levels over a grid of sizes and tokens for each bit-width: figure 11. ValueError: the law has no sizes or no tokens in it.

    >>> found = qtraj.predict.level_map(qtraj.predict.PUBLISHED, widths=[3], points=3)
    >>> found.level.round(3).to_list()
    [0.033, 10.521, 3326.95, 0.005, 1.448, 458.012, 0.001, 0.199, 63.053]
    """
    if "parameters" in law.fixed:
        raise ValueError("the law was fitted to one size of model: it has no map over sizes")
    widths = [law.fixed["bits"]] if "bits" in law.fixed else widths
    sizes, tokens = (np.geomspace(*ends, points) for ends in (MAP_SIZES, MAP_TOKENS))
    rows = pandas.DataFrame([(size, one, bits) for bits in widths for size in sizes for one in tokens], columns=["parameters", "tokens", "bits"])
    return levels(law, rows, full_at)
