"""Independent runs side by side."""

import itertools
from collections.abc import Sequence

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from qtraj.cube import accuracy
from qtraj.cube.files import natural, widths
from qtraj.cube.trajectories import Trajectory, compact, trajectories
from qtraj.figures import colours, style
from qtraj.figures.accuracy import DEGRADATION, measured
from qtraj.figures.agreement import QUANTITIES as AGREEMENT
from qtraj.figures.curvature_over_training import CURVATURE
from qtraj.figures.figure import PAIRED, REPLICATED, Caption, drawn
from qtraj.figures.over_training import Quantity
from qtraj.figures.place import Place
from qtraj.figures.relative_error import ERROR
from qtraj.figures.validation_loss import DIFFERENCE, FULL


QUANTITIES = {"relative_error": [ERROR], "validation_loss": [FULL, DIFFERENCE], "quantized_loss": [Quantity("Quantized loss (nats)", "loss")],
              "agreement": [AGREEMENT[0]], "accuracy": [DEGRADATION], "curvature_over_training": CURVATURE}


def history(line):
    """Pairs of a model and places: the run's checkpoints, and of a branch before them those of the run that it leaves (all, where none is
    from before it)."""
    if line.parent is None:
        return [(line.model, line.places)]
    *earlier, (parent, places) = history(line.parent)
    return [*earlier, (parent, places[: line.fork + 1] if line.fork >= 0 else places), (line.model, line.places)]


def value_of(cube: xr.Dataset, line: Trajectory, column: str) -> "float | str":
    """What a run has in a column of the cube by model, or by model and checkpoint: of numbers the greatest (the peak of a learning
    rate, of a branch that of the run that it leaves), of texts the last. ValueError: the cube has no such column.

    >>> cube = qtraj.open("two_models.h5")
    >>> [round(qtraj.figures.value_of(cube, line, "tokens") / 1e9) for line in qtraj.trajectories(cube)]  # billions
    [4, 20, 7, 9]
    """
    if column not in cube.variables or not set(cube[column].dims) <= {"model", "checkpoint"} or "model" not in cube[column].dims:
        columns = [str(name) for name in cube.variables if set(cube[name].dims) in ({"model"}, {"model", "checkpoint"})]
        raise ValueError(f"the cube has no column {column} of runs; there are {', '.join(sorted(columns))}")
    if "checkpoint" in cube[column].dims:
        values = np.concatenate([cube[column].sel(model=model).values[places] for model, places in history(line)])
    else:
        values = np.atleast_1d(cube[column].sel(model=line.model).values)
    return float(np.nanmax(values)) if values.dtype.kind in "fiu" else str(values[-1])


def colours_of(values):
    """A colour for each value: of numbers in order along a colour bar, of texts by their names; the bar (None: of texts)."""
    if all(isinstance(value, float) for value in values):
        known = [value for value in values if np.isfinite(value)] or [0.0]
        logarithmic = min(known) > 0 and max(known) >= 8 * min(known)
        scale = (matplotlib.colors.LogNorm if logarithmic else matplotlib.colors.Normalize)(min(known), max(known))
        bar = ScalarMappable(scale, matplotlib.colors.ListedColormap(matplotlib.colormaps["viridis"](np.linspace(0, 0.9, 256))))
        return {value: bar.to_rgba(value) for value in values}, bar
    return {name: series[0] for name, series in colours.of_names(values).items()}, None


def choices(cube, bits, quantity):
    """What the panels of a quantity show: where it has them, texts, bit-widths and methods."""
    there = {"dataset": list(map(str, cube.dataset.values)), "bits": widths(cube, bits), "quantizer": list(map(str, cube.quantizer.values))}
    there = {axis: values for axis, values in there.items() if axis in cube[quantity.value].dims}
    all_of = [dict(zip(there, one)) for one in itertools.product(*there.values())]
    return [(quantity, one) for one in all_of if np.isfinite(cube[quantity.value].sel(one)).any()]


def draw(cube, by, bits, quantities, place):
    cube = cube.assign_attrs(phases=0)  # which differ between runs
    lines = trajectories(cube)
    values = {line.model: value_of(cube, line, by) for line in lines}
    lines.sort(key=lambda line: natural(values[line.model]) if isinstance(values[line.model], str) else values[line.model])
    of_values, bar = colours_of([values[line.model] for line in lines])
    of_models = colours.of_models(cube)
    series = {line.model: of_models[line.model] if by == "model" else (of_values[values[line.model]], of_models[line.model][1]) for line in lines}
    wanted = [panel for quantity in quantities for panel in choices(cube, bits, quantity)]
    if not wanted or not lines:
        return None
    unit, label = style.progress_scale(cube, lines)
    figure, panels = place.panels(len(wanted), 3.3, 2.0)
    for axes, (quantity, one) in zip(panels, wanted):
        cells = cube.sel(one)
        for line in lines:
            if np.isfinite(line.own(cells[quantity.value])).any():
                style.draw_curve(axes, line, unit, *quantity.of(cells), series[line.model], quantity.spread_of(cells))
        place.title(axes, *([one["quantizer"], f"{one['bits']} bits"] if "bits" in one else ["full precision"]), one.get("dataset", ""))
        if "bits" in one and quantity.value != "loss":
            axes.axhline(0, color=style.GREY, linewidth=0.6, zorder=1)
        axes.set_ylabel(quantity.label)
        style.name_progress(axes, label, lines, unit, cube)
        if bar is not None:
            figure.colorbar(bar, ax=axes, format=lambda value, _: compact(value)).set_label(by.replace("_", " "))
    place.finish([style.handle(series[line.model], line.model if bar is not None or by == "model" else f"{line.model}: {values[line.model]}")
                  for line in lines] + [one for one in style.context_handles(lines, cube) if one.get_linestyle() != ":" and not one.get_label().startswith("branch")])
    return figure


def compared(cube: xr.Dataset, by: str, bits: "Sequence[int] | None" = None, ax: "Axes | None" = None, width: "float | None" = None,
             of: str = "relative_error") -> Figure:
    """A quantity over training of all runs of a cube in one panel for each method, bit-width and text, coloured by what they
    have in the column `by` (value_of), in its order. of: "relative_error" (%), "validation_loss" (in full precision, and added; nats a token), "quantized_loss",
    "agreement" (KL divergence, nats a token), "accuracy" (its degradation, %) or "curvature_over_training" (sharpness, trace). The other arguments are those of the figures of a cube.

    >>> figure = qtraj.figures.compared(qtraj.select(qtraj.open("two_models.h5"), bits=3, quantizer="gptq"), by="learning_rate")
    >>> len(figure.axes[0].lines) > 4, figure.axes[1].get_ylabel()
    (True, 'learning rate')
    """
    if of not in QUANTITIES:
        raise ValueError(f"{of} of several runs is not drawn; there are {', '.join(QUANTITIES)}")
    if of == "accuracy":
        cube = accuracy.with_errors(cube) if measured(cube) else cube.assign(accuracy_degradation_mean=np.nan * cube.loss_relative.isel(dataset=0))
    return drawn(draw, Place(ax, width), "the cube has no numbers for this", (cube, by, bits, QUANTITIES[of]))


compared.caption = Caption("Runs side by side", "CE(quantized)/CE(full precision) − 1. A panel is a method, bit-width and text, a marker a run, a "
                           "colour what it has in the compared column.", f"{PAIRED}{REPLICATED}.", "evaluation", "cells that are done")
