"""Projections over training tokens: figure 1 of arXiv 2411.17691 from any law."""

from collections.abc import Sequence

import numpy as np
import pandas

from qtraj.predict.saved import Law
from qtraj.predict.tables import SIZES, WIDTHS
from qtraj.predict.values import predict


def projection(law: Law, sizes: "Sequence[float]" = SIZES, widths: "Sequence[float]" = WIDTHS, most: float = 1e14, vocabulary: int = 50254,
               points: int = 40) -> pandas.DataFrame:
    """Figure 1: quantized loss (nats a token) over tokens up to `most` for each size and width, with the loss of guessing at random,
    ln(vocabulary), and whether it is crossed; where the law has no full-precision loss, the added loss alone. 50254: of Pythia.

    >>> found = qtraj.predict.projection(qtraj.predict.PUBLISHED, sizes=[7e9], widths=[2])
    >>> round(found.loss_quantized.iloc[-1], 1), round(found.guessing.iloc[0], 2)
    (53.0, 10.82)
    """
    tokens = np.geomspace(max(law.ranges.get("tokens", (1e9,))[0], 1e6), most, points)
    sizes = [law.fixed["parameters"]] if "parameters" in law.fixed else sizes
    widths = [law.fixed["bits"]] if "bits" in law.fixed else widths
    rows = pandas.DataFrame([(size, bits, one) for size in sizes for bits in widths for one in tokens], columns=["parameters", "bits", "tokens"])
    found = predict(law, rows)
    loss = found.loss_quantized if "loss_quantized" in found else found.delta
    return found.assign(guessing=np.log(vocabulary), worse_than_guessing=loss > np.log(vocabulary))
