"""Accuracies on tasks: the errors that the cube does not store."""

import numpy as np
import xarray as xr


def degradation_stderr(cube: xr.Dataset) -> xr.DataArray:
    """Paired standard error over items of the accuracy degradation of each task, (A - A') / (1 - A) of accuracies A before and A'
    after quantization: that of a ratio of two means over the same items, to first order. An item adds the square of what it lost,
    1, 0 or -1, minus the degradation if it was wrong in full precision. NaN where none was wrong, and for a single item."""
    items, lost, gained = cube["items"].where(cube["items"] > 1), cube.items_lost, cube.items_gained
    wrong = (items * (1 - cube.baseline_accuracy)).where(cube.baseline_accuracy < 1)
    degradation = (lost - gained) / wrong
    squares = lost + gained * (1 + degradation) ** 2 + (wrong - gained) * degradation**2
    return np.sqrt(squares * items / (items - 1)) / wrong


def with_errors(cube: xr.Dataset) -> xr.Dataset:
    """The cube with the standard error of accuracy_degradation_mean."""
    squares = (degradation_stderr(cube) ** 2).sum("task", skipna=False)
    return cube.assign({"accuracy_degradation_mean_stderr": np.sqrt(squares) / cube.sizes["task"]})
