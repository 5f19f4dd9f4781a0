"""Error against the bits that are stored, with the methods that none beats."""

import numpy as np

from qtraj.cube.files import widths
from qtraj.cube.trajectories import families
from qtraj.figures import colours, style
from qtraj.figures.figure import PAIRED, figure_of_cube


MOMENTS = ("first checkpoint", "last at the greatest rate", "last checkpoint")


def moments(line):
    """Names and indices of the three checkpoints of a run; of one that is two of them the later name."""
    rate = np.nan_to_num(line.learning_rate)
    greatest = int(np.flatnonzero(rate >= 0.99 * rate.max())[-1])
    return {k: name for name, k in zip(MOMENTS, (0, greatest, len(line.at) - 1))}.items()


def best(bits, errors):
    """Which points, in the order of their bits, have a smaller error than all with no more bits."""
    found = []
    for i in np.lexsort((errors, bits)):
        if not found or errors[i] < errors[found[-1]]:
            found.append(i)
    return found


def cells_at(line, k, part):
    """Bits per weight, error, whether it is told from zero, and name of the cells of a checkpoint. An error that is not is the most that
    it may be, two standard errors above its estimate or zero."""
    own = part.sel(model=line.model).isel(checkpoint=line.places[k]).stack(cell=("bits", "quantizer"))
    own = own.isel(cell=np.flatnonzero(np.isfinite(own.loss_relative.values) & (own.loss_relative_stderr.values > 0)))
    error, noise = own.loss_relative.values, 2 * own.loss_relative_stderr.values
    told = error > noise
    return own.bits_per_weight.values, 100 * np.where(told, error, np.maximum(error, 0) + noise), told, [str(name) for name in own.quantizer.values]


@figure_of_cube(
    "Error against the bits that are stored",
    "Relative error CE(quantized)/CE(full precision) − 1 of every method and bit-width against the bits of a weight, scales included, at "
    "three checkpoints: the first, the last one at the greatest learning rate, and the last. Lines join the cells that none with as few "
    "bits beats, with their methods at the last checkpoint. Errors that are not told from zero are hollow, at the most that they may be.",
    f"{PAIRED}; they are not drawn", "evaluation", "cells of two methods or bit-widths that are done")
def frontier(cube, bits, place):
    """Relative error against bits per weight at three checkpoints, a panel a run and text, with the frontier of each."""
    if "bits_per_weight" not in cube:
        return None
    cube = cube.sel(bits=widths(cube, bits))
    wanted = [(lines[0], dataset) for lines in families(cube) for dataset in cube.dataset.values]
    found = [(line, dataset, [(name, *cells_at(line, k, cube.sel(dataset=dataset))) for k, name in moments(line)]) for line, dataset in wanted]
    found = [(line, dataset, [one for one in at if len(one[1]) > 1]) for line, dataset, at in found]
    found = [panel for panel in found if panel[2]]
    if not found:
        return None
    figure, panels = place.panels(len(found), 3.3, 2.4)
    labels = []
    for axes, (line, dataset, at) in zip(panels, found):
        for k, x, y, told, names in at:
            colour, marker = colours.series(MOMENTS.index(k))
            front = best(x, y)
            axes.plot(x[told], y[told], marker, color=colour, alpha=0.4, markeredgewidth=0, zorder=3)
            axes.plot(x[front], y[front], "-", color=colour, zorder=4)
            axes.plot(x[front][told[front]], y[front][told[front]], marker, color=colour, zorder=5)
            axes.plot(x[~told], y[~told], marker, color=colour, markerfacecolor="white", zorder=5)
        axes.set_yscale("log")
        axes.set(xlabel="Bits of a weight, scales included", ylabel="Relative error (%)")
        place.title(axes, line.model, dataset)
        labels.append((axes, list(zip(x[front], y[front])), [names[i] for i in front], (), list(zip(x, y))))
    there = {k for _, _, at in found for k, *_ in at}
    place.finish([style.handle(colours.series(i), k) for i, k in enumerate(MOMENTS) if k in there])
    for of_panel in labels:
        style.label_points(*of_panel)
    return figure
