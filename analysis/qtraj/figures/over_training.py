"""Quantities of the cells over training: a row a model and text, a column a bit-width, a curve a method."""

from dataclasses import dataclass

import numpy as np

from qtraj.cube.files import widths, with_replicates
from qtraj.cube.trajectories import families
from qtraj.figures import colours, style
from qtraj.figures.figure import enough, points_of


@dataclass
class Quantity:
    label: str
    value: str  # variable of the cube
    error: "str | None" = None  # its standard error
    scale: float = 1.0

    def of(self, cells):
        """Values and errors (None: there are none) by (model, checkpoint)."""
        return self.scale * cells[self.value], None if self.error is None else self.scale * cells[self.error]

    def spread_of(self, cells):
        """Errors with the deviation over replicates; None: there is none."""
        spread = None if self.error is None else with_replicates(cells, self.value, self.error)
        return None if spread is None else self.scale * spread


def draw_methods(axes, lines, unit, cells, quantity):
    """The curves of every method. cells: those of one bit-width, and of one text where the quantity is of texts."""
    series = colours.of_quantizers(cells)
    for quantizer in cells.quantizer.values:
        one = cells.sel(quantizer=quantizer)
        values, errors = quantity.of(one)
        spread = quantity.spread_of(one)
        for line in lines:
            if np.isfinite(line.own(values)).any():
                style.draw_curve(axes, line, unit, values, errors, series[str(quantizer)], spread)


def losses_of_training(cube):
    """(name, series, label) of the losses that the trajectory tables have."""
    return [(name, *what) for name, what in style.OF_TRAINING.items()
            if name in cube and cube[name].dims == ("model", "checkpoint") and np.isfinite(cube[name].astype(float)).any()]


def draw_full_precision(axes, lines, unit, part, full_precision):
    for name, series, _ in losses_of_training(part):
        for line in lines:
            if not line.average:
                style.draw_curve(axes, line, unit, part[name].astype(float), None, series)
    for line in lines:
        style.draw_curve(axes, line, unit, *full_precision.of(part), style.FULL_PRECISION)


def draw(cube, bits, place, quantities, full_precision=None):
    """full_precision: a quantity of the checkpoints, drawn in a column of its own at the left."""
    groups = families(cube, averages=True)

    def points(row, width=None):
        lines, dataset, quantity = row
        return points_of(lines, cube[quantity.value].sel({"dataset": dataset} | ({} if width is None else {"bits": width})))

    rows = enough([(lines, dataset, quantity) for lines in groups for dataset in cube.dataset.values for quantity in quantities], points)
    bits = [width for width in widths(cube, bits) if any(points(row, width) > 1 for row in rows)]
    if not bits:
        return None
    everything = [line for lines in groups for line in lines]
    unit, label = style.progress_scale(cube, everything)
    left = 1 if full_precision else 0
    columns = left + len(bits)
    figure, panels = place.grid(len(rows), columns)
    for (lines, dataset, quantity), row in zip(rows, panels):
        part = cube.sel(dataset=dataset)
        if full_precision:
            draw_full_precision(row[0], lines, unit, part, full_precision)
            style.draw_learning_rate(place, row[0], lines, unit, cube)
            place.title(row[0], lines[0].model, "full precision", dataset)
            row[0].set_ylabel(full_precision.label)
            style.name_progress(row[0], label, lines, unit, cube)
        for axes, width in zip(row[left:], bits):
            if points((lines, dataset, quantity), width) < 2:
                place.leave_out(axes)
                continue
            draw_methods(axes, lines, unit, part.sel(bits=width), quantity)
            style.draw_learning_rate(place, axes, lines, unit, cube)
            place.title(axes, lines[0].model, f"{width} bits", dataset)
            axes.set_ylabel(quantity.label)
            style.name_progress(axes, label, lines, unit, cube)
    handles = [style.handle(style.FULL_PRECISION, "full precision")] if full_precision else []
    handles += [style.handle(series, label) for _, series, label in losses_of_training(cube) if full_precision]
    place.finish(handles + style.quantizer_handles(cube, bits)
                 + style.context_handles(everything, cube))
    return figure
