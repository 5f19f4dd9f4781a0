"""Runs at equal full-precision loss, and whether what quantization adds there follows the order of a column."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from qtraj.cube import paired
from qtraj.cube.points import main_lines
from qtraj.cube.trajectories import trajectories

LEVELS = 5  # of full-precision loss
EXACT = 8  # runs, all of whose orders are counted
DRAWS = 20000


@dataclass
class Matched:
    """Added loss (nats a token) of runs, the mean over the same levels of full-precision loss. values: by run what is compared.
    differences: by pair of runs the second's minus the first's, and its standard error, paired over sequences (NaN without them).
    left_out: why, by run that is not compared."""

    levels: np.ndarray
    values: dict
    added: dict
    stderr: dict
    differences: dict
    concordance: float  # share of pairs that are in the order of the values, minus the others'; NaN: of texts
    p: float  # of no order, two-sided
    left_out: dict


def weights_at(losses, level):
    """Weights of the checkpoints, in the order of training, where their loss first falls to the level."""
    out = np.zeros(len(losses))
    for i in range(len(losses) - 1):
        if losses[i] >= level >= losses[i + 1]:
            share = (losses[i] - level) / (losses[i] - losses[i + 1]) if losses[i] > losses[i + 1] else 0.0
            out[i], out[i + 1] = 1 - share, share
            return out
    return None


def in_common(losses):
    """Places of most runs, all of whose losses overlap (of equally many the widest range), and the range. losses: by run in the order of training."""
    first, least = np.array([x[0] for x in losses]), np.array([x.min() for x in losses])
    sets = [np.flatnonzero((least <= low) & (low < first)) for low in least]
    sets = [(places, low, first[places].min()) for places, low in zip(sets, least) if len(places)]
    return max(sets, key=lambda one: (len(one[0]), one[2] - one[1]), default=(np.array([], int), np.nan, np.nan))


def order(values: "Sequence[float]", results: "Sequence[float]") -> "tuple[float, float]":
    """Concordance of two columns (pairs in the same order less those in the other, over all that differ), and its two-sided p by
    permutation (Jonckheere's test): exact for up to eight, else of 20000 draws.

    >>> qtraj.runs.order([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4])  # the least p of four runs is 2/24
    (1.0, 0.08333333333333333)
    """
    x, y = (np.asarray(column, float) for column in (values, results))
    i, j = np.triu_indices(len(x), 1)
    sign = np.sign(x[j] - x[i])
    if not sign.any():
        return np.nan, 1.0

    def score(z):
        return float((sign * np.sign(z[j] - z[i])).sum())

    rng = np.random.default_rng(0)
    draws = itertools.permutations(y) if len(y) <= EXACT else (rng.permutation(y) for _ in range(DRAWS))
    found, there = abs(score(y)), [abs(score(np.array(draw))) for draw in draws]
    beyond = sum(one >= found - 1e-9 for one in there)
    return score(y) / np.abs(sign).sum(), beyond / len(there) if len(y) <= EXACT else (beyond + 1) / (DRAWS + 1)


def matched(cube: xr.Dataset, by: str, bits: int, quantizer: str, dataset: str = "") -> Matched:
    """The added loss of runs of a cube (main_lines) at the same five full-precision losses between the greatest end and the smallest
    beginning, interpolated between checkpoints: of all runs, or of the most that have losses in common. Branches are compared only
    where fewer than two runs are none. by: a column of runs (qtraj.figures.value_of). ValueError: fewer than two such runs.

    >>> found = qtraj.runs.matched(qtraj.open("two_models.h5"), "tokens", 3, "gptq")
    >>> list(found.added), found.p, found.left_out
    (['SmolLM3-3B', 'OLMo2-7B'], 1.0, {})
    """
    from qtraj.figures.compared import value_of  # which imports matplotlib

    dataset = dataset or str(cube.dataset.values[0])
    part = cube.sel(dataset=dataset, bits=bits, quantizer=quantizer)
    whole, cells = (paired.rows_of(cube, group) for group in ("checkpoints", "cells"))
    lines, curves, left_out = [], [], {}
    runs = main_lines(cube)
    for line in runs if len(runs) > 1 else trajectories(cube):
        x, y = line.own(part.baseline_loss), line.own(part.loss_delta)
        known = np.isfinite(x) & np.isfinite(y)
        if known.sum() > 1:
            lines.append(line)
            curves.append((x[known], y[known], line.own(cube.checkpoint_name)[known]))
        else:
            left_out[line.model] = "fewer than two checkpoints"
    if len(lines) < 2:
        raise ValueError(f"{quantizer} at {bits} bits: {'no run' if not lines else '1 run'} with two checkpoints; it takes two")
    places, low, high = in_common([x for x, _, _ in curves])
    ranges = {line.model: f"{x[0]:.4g} to {x.min():.4g}" for line, (x, _, _) in zip(lines, curves)}
    if len(places) < 2:
        raise ValueError(f"{quantizer} at {bits} bits: no two runs have full-precision losses in common: "
                         f"{', '.join(f'{run} has {losses}' for run, losses in ranges.items())}")
    left_out |= {line.model: f"full-precision losses of {ranges[line.model]}" for i, line in enumerate(lines) if i not in places}
    lines, curves = [lines[i] for i in places], [curves[i] for i in places]
    levels = np.linspace(low, high, LEVELS + 2)[1:-1]
    added, errors, parts = {}, {}, {}
    for line, (x, y, names) in zip(lines, curves):
        weights = np.mean([weights_at(x, level) for level in levels], axis=0)
        added[line.model] = float(weights @ y)
        rows = [(cells(line.model, str(name), dataset, bits, quantizer), whole(line.model, str(name), dataset)) for name in names]
        there = all(q is not None and f is not None for (q, f), w in zip(rows, weights) if w > 0)
        parts[line.model] = sum(w * (q - f) for (q, f), w in zip(rows, weights) if w > 0) if there else None
        zero = None if parts[line.model] is None else np.zeros_like(parts[line.model])
        errors[line.model] = paired.change(parts[line.model], zero)[1]
    differences = {(a, b): (added[b] - added[a], paired.change(parts[b], parts[a])[1]) for a, b in itertools.combinations(added, 2)}
    values = {line.model: value_of(cube, line, by) for line in lines}
    numbers = all(isinstance(value, float) and np.isfinite(value) for value in values.values())
    concordance, p = order(list(values.values()), list(added.values())) if numbers else (np.nan, np.nan)
    return Matched(levels, values, added, errors, differences, concordance, p, left_out)
