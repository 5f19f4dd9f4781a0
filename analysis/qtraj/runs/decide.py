"""Which checkpoint, or average of checkpoints, has the smallest loss once it is quantized."""

import numpy as np
import pandas
import xarray as xr

from qtraj.cube import paired

NORMAL = 1.96  # standard errors, half a 95 % interval


def same_text(cube, dataset):
    """ValueError: the runs were not scored on the same tokens."""
    if "baseline_tokens" not in cube:
        return
    tokens = cube.baseline_tokens.sel(dataset=dataset).values
    counts = sorted(set(tokens[np.isfinite(tokens) & (tokens > 0)].astype(int)))
    if len(counts) > 1:
        raise ValueError(f"{dataset}: the runs were scored on {' and '.join(map(str, counts))} tokens (tokenizers or texts differ), so their losses in nats "
                         "a token cannot be compared")


def decide(cube: xr.Dataset, bits: int, dataset: str = "", quantizer: str = "") -> pandas.DataFrame:
    """Every checkpoint and average of every run, quantized to so many bits, the smallest loss (nats a token) first.

    dataset: the text, quantizer: the only method; empty: the cube's first text, all methods. `behind` is the loss minus the smallest,
    `costs` the full-precision loss minus the smallest of that; their standard errors are paired over the text's sequences, NaN where the
    cube lacks those. `tie`: the 95 % interval of `behind` contains zero. ValueError: nothing is there, or other tokens were scored.

    >>> best = qtraj.runs.decide(qtraj.open("two_models.h5"), bits=3)
    >>> best[["run", "checkpoint", "quantizer", "behind"]].iloc[0].to_list()
    ['OLMo2-7B', 'step012000', 'gptq', 0.0]
    """
    dataset = dataset or str(cube.dataset.values[0])
    for axis, value in (("dataset", dataset), ("bits", bits), ("quantizer", quantizer)):
        if value and value not in cube[axis].values:
            raise ValueError(f"the cube has no {axis} {value}; there are {', '.join(map(str, cube[axis].values))}")
    same_text(cube, dataset)
    part = cube.sel(dataset=dataset, bits=bits)
    whole, cells = (paired.rows_of(cube, group) for group in ("checkpoints", "cells"))
    rows, losses = [], []
    for m, model in enumerate(map(str, cube.model.values)):
        for c, name in enumerate(map(str, cube.checkpoint_name.values[m])):
            for method in [quantizer] if quantizer else map(str, cube.quantizer.values):
                one = part.sel(quantizer=method).isel(model=m, checkpoint=c)
                if np.isfinite(one.loss):
                    rows.append({"run": model, "checkpoint": name, "kind": str(one.kind.values), "step": float(one.step), "tokens": float(one.tokens),
                                 "quantizer": method, "loss": float(one.loss), "full": float(one.baseline_loss)})
                    losses.append((cells(model, name, dataset, bits, method), whole(model, name, dataset)))
    if not rows:
        raise ValueError(f"no cell of {bits} bits on {dataset} is done")
    frame = pandas.DataFrame(rows)
    first, cheapest = int(frame.loss.argmin()), int(frame.full.argmin())
    frame["behind"], frame["costs"] = frame.loss - frame.loss[first], frame.full - frame.full[cheapest]
    frame["behind_stderr"] = [0.0 if i == first else paired.change(of[0], losses[first][0])[1] for i, of in enumerate(losses)]
    frame["costs_stderr"] = [0.0 if frame.full[i] == frame.full[cheapest] else paired.change(of[1], losses[cheapest][1])[1] for i, of in enumerate(losses)]
    frame["tie"] = frame.behind <= NORMAL * frame.behind_stderr.fillna(0)
    return frame.sort_values("loss", kind="stable").reset_index(drop=True)
