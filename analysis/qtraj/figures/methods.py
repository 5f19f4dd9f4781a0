"""Relative error over training, method by method."""

import numpy as np

from qtraj.cube.files import widths, with_replicates
from qtraj.cube.trajectories import families
from qtraj.figures import style
from qtraj.figures.figure import PAIRED, REPLICATED, enough, figure_of_cube, points_of


def share_axes(panels, drawn):
    """Panels with the same bit-widths get the same axis of y, so that their methods can be compared."""
    for alike in {tuple(widths) for widths in drawn}:
        same = [axes for axes, widths in zip(panels, drawn) if tuple(widths) == alike]
        limits = [axes.get_ylim() for axes in same]
        for axes in same:
            axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
            axes.axhline(0, color=style.GREY, linewidth=0.6, zorder=1)


@figure_of_cube(
    "Relative error over training, method by method",
    "CE(quantized)/CE(full precision) − 1. A panel is a method, a colour and marker a bit-width; panels with the same "
    "bit-widths have the same axes. Dotted behind: the learning rate.",
    f"{PAIRED}{REPLICATED}.", "evaluation", "cells that are done")
def methods(cube, bits, place):
    """Relative error CE(quantized)/CE - 1 over training, one panel per method: figure 5 of arXiv 2510.06213."""
    bits = widths(cube, bits)
    groups = families(cube)
    there = enough([(lines, dataset, i) for lines in groups for dataset in cube.dataset.values for i in range(len(cube.quantizer))],
                   lambda one: points_of(one[0], cube.loss_relative.sel(bits=bits, dataset=one[1]).isel(quantizer=one[2])))
    if not there:
        return None
    everything = [line for lines in groups for line in lines]
    unit, label = style.progress_scale(cube, everything)
    figure, panels = place.panels(len(there))
    place.told += [str(name) for name in cube.quantizer.values]
    drawn = [[] for _ in there]
    for axes, of_panel, (lines, dataset, i) in zip(panels, drawn, there):
        part = cube.isel(quantizer=i).sel(dataset=dataset)
        for k, width in enumerate(bits):
            cells = part.sel(bits=width)
            spread = with_replicates(cells, "loss_relative", "loss_relative_stderr")
            for line in lines:
                if np.isfinite(line.own(cells.loss_relative)).any():
                    style.draw_curve(axes, line, unit, 100 * cells.loss_relative, 100 * cells.loss_relative_stderr, style.series_of(k),
                                     None if spread is None else 100 * spread)
                    of_panel.append(width)
        style.draw_learning_rate(place, axes, lines, unit, cube)
        style.name_progress(axes, label, lines, unit, cube)
        axes.set_ylabel("Relative error (%)")
        place.title(axes, str(cube.quantizer.values[i]), lines[0].model, dataset)
    share_axes(panels, [sorted(set(of_panel)) for of_panel in drawn])
    handles = [style.handle(style.series_of(k), f"{width} bits") for k, width in enumerate(bits)]
    place.finish(handles + style.context_handles(everything, cube))
    return figure
