"""What the rest of a run that is still trained will cost, by a law of other runs."""

import datetime
import json
import os

import numpy as np
import pandas

from qtraj.cube.files import natural
from qtraj.laws.dynamics import ENDED, with_dynamics
from qtraj.predict.rows import complete
from qtraj.predict.saved import Law
from qtraj.predict.values import predict


def ahead(law: Law, points: pandas.DataFrame, end: float) -> pandas.DataFrame:
    """For the last checkpoint of each run of the points (qtraj.points) and each bit-width: delta_now, the added loss measured there (nats
    a token), law_now, what the law says there, and what it says (predict) of the run at `end` training tokens if its learning rate begins to
    fall now and ends at zero. Other columns that the law needs, such as trace, stay as they are. Points are those of the law's method and text,
    if there are such; runs whose rate is a tenth of its peak or less have ended. ValueError: no run is left, or the law needs what was not measured.

    >>> law = qtraj.predict.PUBLISHED
    >>> points = qtraj.points("two_models.h5")
    >>> found = qtraj.predict.ahead(law, points[points.tokens < 1e10], 1e13)
    >>> found[["model", "bits", "delta"]].round(3).values.tolist()[0]
    ['OLMo2-7B', 3, 1.956]
    """
    points = with_dynamics(points)
    for column, name in (("quantizer", "method"), ("dataset", "text")):
        if (points[column] == law.about.get(name)).any():
            points = points[points[column] == law.about[name]]
    last = points.tokens == points.groupby("model").tokens.transform("max")
    points = points[last & (points.tokens < end) & ~(points.learning_rate <= ENDED * points.peak_rate)]
    if len(points) == 0:
        raise ValueError(f"no run has yet to decay until {end:.4g} tokens")
    last = points.drop_duplicates(["model", "bits"])
    last = last.loc[sorted(last.index, key=lambda i: (natural(last.model[i]), last.bits[i]))].reset_index(drop=True)
    began = last.decay_tokens.fillna(0.0)
    then = last.assign(tokens=float(end), learning_rate=0.0, decay_tokens=end - last.tokens + began).drop(columns="loss")
    found = predict(law, then)
    now = np.exp(law.form.logarithm(law.values, complete(law, last)))
    kept = ["model", "checkpoint", "bits", "quantizer", "dataset"]
    out = last[kept].assign(tokens_now=last.tokens, delta_now=last.delta, law_now=now)
    return out.join(found[["delta", "low", "high", "outside"]])


def save_beside(found: pandas.DataFrame, results: "str | os.PathLike", law: str, end: float) -> str:
    """Writes what ahead() found into RESULTS.coming.json, from which `qtraj status` prints it; returns that name. law: what it is called."""
    path = f"{results}.coming.json"
    said = {"format": "qtraj coming 1", "law": law, "end": float(end), "utc": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "rows": json.loads(found.to_json(orient="records", double_precision=15))}
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(said, file, indent=1)
        file.write("\n")
    os.replace(f"{path}.new", path)
    return path
