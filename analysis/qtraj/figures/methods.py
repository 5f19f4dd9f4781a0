"""Relative error over training, method by method."""

import numpy as np

from qtraj.cube.files import widths, with_replicates
from qtraj.cube.trajectories import families
from qtraj.figures import colours, style
from qtraj.figures.figure import PAIRED, REPLICATED, enough, figure_of_cube, points_of


def share_axes(panels, drawn):
    """Panels with the same bit-widths get the same axis of y, so that their methods can be compared. drawn: by panel {bit-width: values and
    errors}."""
    for alike in {tuple(sorted(of)) for of in drawn}:
        same = [(axes, of) for axes, of in zip(panels, drawn) if tuple(sorted(of)) == alike]
        values, errors = (np.concatenate([np.ravel(pair[i]) for _, of in same for pairs in of.values() for pair in pairs]) for i in (0, 1))
        for axes, _ in same:
            style.signed_log(axes, values, errors)
        limits = [axes.get_ylim() for axes, _ in same]
        for axes, _ in same:
            axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
            if axes.get_yscale() == "linear":
                axes.axhline(0, color=style.GREY, linewidth=0.6, zorder=1)


@figure_of_cube(
    "Relative error over training, method by method",
    "CE(quantized)/CE(full precision) − 1. A panel is a method, a colour and marker a bit-width; panels with the same "
    "bit-widths have the same axes, logarithmic where the errors need it. Dotted behind: the learning rate.",
    f"{PAIRED}{REPLICATED}.", "evaluation", "cells that are done")
def methods(cube, bits, place):
    """Relative error CE(quantized)/CE - 1 over training, one panel per method: figure 10 of arXiv 2510.06213."""
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
    drawn = [{} for _ in there]
    for axes, of_panel, (lines, dataset, i) in zip(panels, drawn, there):
        part = cube.isel(quantizer=i).sel(dataset=dataset)
        for width in bits:
            cells = part.sel(bits=width)
            spread = with_replicates(cells, "loss_relative", "loss_relative_stderr")
            for line in lines:
                if np.isfinite(line.own(cells.loss_relative)).any():
                    style.draw_curve(axes, line, unit, 100 * cells.loss_relative, 100 * cells.loss_relative_stderr, colours.of_bits(width),
                                     None if spread is None else 100 * spread)
                    of_panel.setdefault(width, []).append([100 * line.own(cells[name]) for name in ("loss_relative", "loss_relative_stderr")])
        style.draw_learning_rate(place, axes, lines, unit, cube)
        style.name_progress(axes, label, lines, unit, cube)
        axes.set_ylabel("Relative error (%)")
        place.title(axes, str(cube.quantizer.values[i]), lines[0].model, dataset)
    share_axes(panels, drawn)
    handles = [style.handle(colours.of_bits(width), f"{width} bits") for width in bits]
    place.finish(handles + style.context_handles(everything, cube))
    return figure
