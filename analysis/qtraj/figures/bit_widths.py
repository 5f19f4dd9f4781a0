"""Relative error by bit-width, method and average."""

import numpy as np

from qtraj.cube.files import widths, with_replicates
from qtraj.cube.trajectories import families
from qtraj.figures import colours, style
from qtraj.figures.figure import PAIRED, REPLICATED, enough, figure_of_cube


def ends_of(lines):
    """The last checkpoint of each line that there is, and the label of the line."""
    return [(line, line.places[-1], style.named(line) if line.number else line.model) for line in lines]


@figure_of_cube(
    "Relative error by bit-width, method and average",
    "The last checkpoint of each run and branch, and the last average of each entry of the sweep's averages. Points of a "
    "bit-width are moved sideways so that they do not cover each other. Where points are not told from zero, the axis is "
    "linear around zero and logarithmic beyond.",
    f"{PAIRED}{REPLICATED}.", "evaluation", "cells that are done")
def bit_widths(cube, bits, place):
    """Relative error by bit-width and method, of the last checkpoint of each run and branch and of the last average of each entry of
    `averages`: a panel a model and text."""
    bits = widths(cube, bits)
    groups = families(cube, averages=True)
    panels_of = enough([(lines, str(dataset)) for lines in groups for dataset in cube.dataset.values],
                       lambda one: sum(int(np.isfinite(cube.loss_relative.sel(model=line.model, dataset=one[1], bits=bits).isel(checkpoint=last)).sum())
                                       for line, last, _ in ends_of(one[0])))
    if not panels_of:
        return None
    figure, panels = place.panels(len(panels_of), 3.3, 2.2)
    across, looks = np.arange(len(bits)), colours.of_quantizers(cube)
    for axes, (lines, dataset) in zip(panels, panels_of):
        cells = cube.sel(dataset=dataset, bits=bits)
        part = 100 * cells[["loss_relative", "loss_relative_stderr"]]
        spread = with_replicates(cells, "loss_relative", "loss_relative_stderr")
        series = [(i, *end) for i in range(len(cube.quantizer)) for end in ends_of(lines)]
        drawn = []
        for k, (i, line, last, _) in enumerate(series):
            cell = part.sel(model=line.model).isel(checkpoint=last, quantizer=i)
            y, error = cell.loss_relative.values, cell.loss_relative_stderr.values
            if not np.isfinite(y).any():
                continue
            moved = across + 0.3 * (k / max(len(series) - 1, 1) - 0.5)
            outer = None if spread is None else 100 * spread.sel(model=line.model).isel(checkpoint=last, quantizer=i).values
            look = looks[str(cube.quantizer.values[i])]
            style.draw_points(axes, moved, y, error, outer, look, style.marker_style(look[0], line),
                              linestyle=style.dash(line), linewidth=0.8)
            drawn.append((y, error))
        style.signed_log(axes, *(np.concatenate(v) for v in zip(*drawn))) if drawn else None
        axes.set_xticks(across, [str(width) for width in bits])
        axes.set(xlabel="Bits", ylabel="Relative error (%)", xlim=(-0.5, len(bits) - 0.5))
        place.title(axes, lines[0].model, dataset)
    place.finish(style.quantizer_handles(cube, bits) + style.context_handles([line for lines in groups for line in lines]))
    return figure
