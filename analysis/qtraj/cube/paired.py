"""Changes of the loss between two models that were scored on the same sequences, with paired errors."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from qtraj.cube.files import open_group


def rows_of(cube: xr.Dataset, group: str) -> Callable:
    """A function from (model, checkpoint's name, text, width, method) to the losses of the row's sequences; None where
    there are none. Of full precision, width and method are None."""
    frame, losses = open_group(cube, group), open_group(cube, "sequences")
    if frame is None or losses is None:
        return lambda *key: None
    names = ["model", "checkpoint_name", "dataset"] + (["bits", "quantizer"] if group == "cells" else [])
    start, count, loss = frame.sequence_start.values, frame.sequence_count.values, losses.loss.values
    place = {key: i for i, key in enumerate(zip(*(frame[name].values for name in names)))}

    def find(*key):
        i = place.get(key)
        return loss[int(start[i]):int(start[i] + count[i])] if i is not None and count[i] > 0 else None

    return find


def change(first: "np.ndarray | None", second: "np.ndarray | None") -> "tuple[float, float]":
    """Mean and paired standard error of first − second, losses of the same sequences; NaN where there is nothing to compare.

    >>> mean, error = qtraj.cube.paired.change(np.array([3.0, 4.0, 5.0]), np.array([2.0, 3.5, 4.0]))
    >>> round(mean, 4), round(error, 4)
    (0.8333, 0.1667)
    """
    if first is None or second is None or len(first) != len(second):
        return np.nan, np.nan
    difference = first - second
    return difference.mean(), difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan


def relative_change(first: "tuple", second: "tuple") -> "tuple[float, float]":
    """Mean and paired standard error of the change from the second to the first relative error, each of a pair of losses by sequence,
    quantized and in full precision, of the same sequences; to first order, as of a difference of two ratios of means. NaN where losses
    are missing.

    >>> full, other = np.array([3.0, 4.0, 5.0]), np.array([2.0, 3.0, 5.0])
    >>> change, error = qtraj.cube.paired.relative_change((1.2 * full, full), (1.1 * other, other))
    >>> round(change, 4), round(error, 4)
    (0.1, 0.0)
    """
    losses = [*first, *second]
    if any(part is None for part in losses) or len({len(part) for part in losses}) > 1 or len(losses[0]) < 2:
        return np.nan, np.nan
    ratios = [quantized.mean() / full.mean() for quantized, full in (first, second)]
    parts = [(quantized - ratio * full) / full.mean() for (quantized, full), ratio in zip((first, second), ratios)]
    moved = parts[0] - parts[1]
    return ratios[0] - ratios[1], moved.std(ddof=1) / np.sqrt(len(moved))


def with_deviation(cells, places, error):
    """The error of the change of a cell's loss from the second to the first of two places along the checkpoint axis together
    with its deviation over replicates; NaN without replicates of both."""
    if "loss_replicate" not in cells:
        return np.nan
    first, second = (np.append(cells.loss.values[place], cells.loss_replicate.values[place]) for place in places)
    moved = (first - second)[np.isfinite(first - second)]
    return np.hypot(error, moved.std(ddof=1)) if len(moved) > 1 else np.nan


def last_member(line):
    """Places along the checkpoint axis of the line's last average and of the stored checkpoint at the same moment of training."""
    parent = line.parent
    there = parent.places[parent.at == line.at[-1]]
    return (line.places[-1], there[-1]) if len(there) else None


def changes(cube, line, bits, whole, cells):
    """For each text: the names of the average and of its last member, the text, the change in full precision, and by method the
    changes with both parts of their errors. whole, cells: rows_of the losses in full precision and of cells."""
    places = last_member(line)
    names = [str(cube.checkpoint_name.sel(model=line.model).values[place]) for place in places or ()]
    for dataset in cube.dataset.values if places else []:
        of = {}
        for quantizer in cube.quantizer.values:
            of[quantizer] = []
            for width in bits:
                moved, error = change(*(cells(line.model, name, dataset, width, quantizer) for name in names))
                cell = cube.sel(model=line.model, dataset=dataset, bits=width, quantizer=quantizer)
                of[quantizer].append((moved, error, with_deviation(cell, places, error)))
        yield names, str(dataset), change(*(whole(line.model, name, dataset) for name in names)), of
