"""Quantized against full-precision loss."""

import numpy as np
from matplotlib.lines import Line2D

from qtraj.cube.files import widths, with_replicates
from qtraj.cube.trajectories import checkpoint_labels, families
from qtraj.figures import colours, style
from qtraj.figures.figure import PAIRED, REPLICATED, enough, figure_of_cube, points_of


def draw_line(axes, line, base, cells, series):
    colour = series[0]
    (_, x), (_, y) = line.curve(base), line.curve(cells.loss)
    bars = [None if part is None else line.curve(part)[1]
            for part in (cells.loss_delta_stderr, with_replicates(cells, "loss_delta", "loss_delta_stderr"))]
    axes.plot(x, y, color=colour, linestyle=style.dash(line), linewidth=1, alpha=0.7, zorder=3)
    known = np.isfinite(x) & np.isfinite(y)
    known[0] &= line.fork < 0  # a branch starts without a marker on the run that it left
    style.draw_points(axes, x[known], y[known], *(None if part is None else part[known] for part in bars), series,
                      style.marker_style(colour, line))


def label_panel(axes, cube, lines, part):
    """Steps at the first and the last point of each run, of the method that lies highest, where there is space."""
    highest = int(np.argmax(np.nan_to_num(part.loss.max(("model", "checkpoint")).values, nan=-1)))
    points, labels, others = [], [], []
    for line in (line for line in lines if not line.average):
        names = checkpoint_labels(cube, line)
        for i in range(len(part.quantizer)):
            found = list(zip(line.own(part.baseline_loss), line.own(part.loss.isel(quantizer=i))))
            if i == highest:
                points += [found[0], found[-1]]
                labels += [names[0], names[-1]]
            others += found[1:-1] if i == highest else found
    style.label_points(axes, points, labels, avoid=others)


@figure_of_cube(
    "Quantized against full-precision loss",
    "One curve a run and method, in the order of training, from high losses at the right to low ones at the left; "
    "numbers are the steps of the first and the last checkpoint. The height above the dotted bisector is the added loss.",
    f"of that height, {PAIRED}{REPLICATED}.", "evaluation", "cells that are done")
def quantized_loss(cube, bits, place):
    """Loss of the quantized model against the loss at full precision, a row a model and text, a column a bit-width, one curve a run
    and method in training order. The distance above the bisector is the added loss, and the bars are its."""
    bits = widths(cube, bits)
    groups = families(cube, averages=True)
    rows = enough([(lines, cube.sel(dataset=dataset)) for lines in groups for dataset in cube.dataset.values],
                  lambda row: points_of(row[0], row[1].loss.sel(bits=bits)))
    if not rows:
        return None
    figure, panels = place.grid(len(rows), len(bits), height=2.0)
    series = colours.of_quantizers(cube)
    for (lines, part), row in zip(rows, panels):
        base = np.concatenate([line.own(part.baseline_loss) for line in lines])
        for axes, width in zip(row, bits):
            if not points_of(lines, part.loss.sel(bits=width)):
                place.leave_out(axes)
                continue
            for quantizer in map(str, part.quantizer.values):
                cells = part.sel(bits=width, quantizer=quantizer)
                for line in lines:
                    if np.isfinite(line.own(cells.loss)).any():
                        draw_line(axes, line, part.baseline_loss, cells, series[quantizer])
            if np.isfinite(base).any():
                ends = [np.nanmin(base), np.nanmax(base)]
                axes.plot(ends, ends, color=style.GREY, linestyle=":", zorder=1)
            place.title(axes, lines[0].model, f"{width} bits", str(part.dataset.values))
            axes.set(xlabel="Full-precision loss (nats)", ylabel="Quantized loss (nats)")
    place.finish(style.quantizer_handles(cube, bits)
                 + [Line2D([], [], color=style.GREY, linestyle=":", label="equal (nothing lost)")]
                 + style.context_handles([line for lines in groups for line in lines]))
    for (lines, part), row in zip(rows, panels):
        for axes, width in zip(row, bits):
            if axes in place.all:
                label_panel(axes, cube, lines, part.sel(bits=width))
    return figure
