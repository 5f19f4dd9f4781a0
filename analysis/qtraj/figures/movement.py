"""Movement of the weights over training."""

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from qtraj.cube.files import widths
from qtraj.cube.trajectories import families
from qtraj.figures import colours, style
from qtraj.figures.figure import NONE, enough, figure_of_cube, points_of

WEIGHTS = (("movement_relative", "all weights", (style.BLACK, "*")),
           ("movement_quantized_relative", "quantized weights", (style.SKY, "P")))
ROUNDING = 1 / np.sqrt(12)  # steps that rounding to nearest moves a weight, root mean square


def measured(cube):
    return "movement_in_steps" in cube and bool(np.isfinite(cube.movement).any())


def draw_line(axes, line, unit, values, series):
    """One trajectory, from its second checkpoint on."""
    y = line.own(values)
    known = np.isfinite(y) & (y > 0)
    axes.plot(line.at[known] / unit, y[known], color=series[0], linestyle=style.dash(line), marker=series[1], zorder=3,
              **style.marker_style(series[0], line))


def scale_log(axes):
    """A logarithmic axis with plain numbers."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    style.number_plainly(axes, LogLocator(subs=style.FEW if high < 200 * low else (1,)))


@figure_of_cube(
    "Movement of the weights over training",
    "Change of the weights from one checkpoint to the next, at the later one: at the left its Euclidean length over that of the "
    "weights, at the right the root mean square change of a weight over that of the step of the quantizer's grid. Below the "
    "dashed line a weight moves by less than a step between checkpoints, below the other line by less than rounding to nearest "
    "moves it. Checkpoints that are farther apart in training have moved farther. Dotted: the learning rate.",
    f"{NONE}: the numbers are exact.", "weights", "movement of the weights (the sweep file's key movement)")
def movement(cube, bits, place):
    """How far the weights move from one checkpoint to the next over training (figure 12 of arXiv 2411.17691): relative to their norm,
    and in steps of the quantizer's grid at each bit-width. Averages are left out."""
    if not measured(cube):
        return None
    bits = [width for width in widths(cube, bits) if np.isfinite(cube.movement_in_steps.sel(bits=width)).any()]
    groups = enough(families(cube), lambda lines: points_of(lines, cube.movement))
    if not groups:
        return None
    everything = [line for lines in groups for line in lines]
    drawn = [line for line in everything if not line.number or points_of([line], cube.movement)]
    unit, label = style.progress_scale(cube, everything)
    figure, panels = place.grid(len(groups), 2, width=3.3, height=2.0)
    for lines, row in zip(groups, panels):
        for line in lines:
            for name, _, series in WEIGHTS:
                draw_line(row[0], line, unit, cube[name], series)
            for width in bits:
                draw_line(row[1], line, unit, cube.movement_in_steps.sel(bits=width), colours.of_bits(width))
        row[1].axhline(1, color=style.GREY, linestyle="--", linewidth=0.8, zorder=1)
        row[1].axhline(ROUNDING, color=style.GREY, linestyle="-.", linewidth=0.8, zorder=1)
        for axes, name in zip(row, ("Change ‖Δθ‖/‖θ‖", "Change of a weight (steps)")):
            scale_log(axes)
            style.draw_learning_rate(place, axes, lines, unit, cube)
            place.title(axes, lines[0].model)
            axes.set_ylabel(name)
            style.name_progress(axes, label, lines, unit, cube)
    place.finish([style.handle(series, what) for _, what, series in WEIGHTS]
                 + [style.handle(colours.of_bits(width), f"{width} bits") for width in bits]
                 + [Line2D([], [], color=style.GREY, linestyle="--", linewidth=0.8, label="one step"),
                    Line2D([], [], color=style.GREY, linestyle="-.", linewidth=0.8, label="rounding (1/√12 step)")]
                 + style.context_handles(drawn, cube))
    return figure
