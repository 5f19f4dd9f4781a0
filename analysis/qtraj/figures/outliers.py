"""Outliers of what a model computes, over training."""

import numpy as np

from qtraj.cube.trajectories import families
from qtraj.figures import colours, style
from qtraj.figures.figure import NONE, enough, figure_of_cube, points_of
from qtraj.figures.movement import draw_line, scale_log

SITES = {"qkv": "inputs of q, k, v", "o": "inputs of o", "up": "inputs of gate, up", "down": "inputs of down", "keys": "keys", "values": "values",
         "residual": "residual stream"}
MARKERS = "so^DvPX"
LOOK = {site: (colour, marker) for site, colour, marker in zip(SITES, (*colours.COLOURS[:6], style.BLACK), MARKERS)}


def over_blocks(cube, name):
    """One number a site: the geometric mean over the blocks, of blocks where it is known."""
    return np.exp(np.log(cube[name]).mean("block"))


QUANTITIES = (("outlier_kurtosis", "Kurtosis"), ("outlier_over_median", "Largest |x| over median"), ("outlier_error_4", "Rounding error, 4 bits (%)"))


@figure_of_cube(
    "Outliers over training",
    "Of the inputs of linears, keys, values and the residual stream behind each block: the kurtosis of all their numbers (dashed line: a "
    "normal distribution's), the largest magnitude over the median one, and the relative error |Q(x) − x|/|x| of rounding to 4 bits with "
    "a range for each token, of keys and values for each head too. Geometric means over the blocks. Dotted: the learning rate.",
    f"{NONE}: numbers are of the text that the caption names.", "evaluation", "outliers (the sweep file's key outliers)")
def outliers(cube, bits, place):
    """Kurtosis, largest numbers and rounding errors of what the model computes over training, with the learning rate behind. Averages are
    left out."""
    del bits
    if "outlier_kurtosis" not in cube or not np.isfinite(cube.outlier_kurtosis).any():
        return None
    groups = enough(families(cube), lambda lines: points_of(lines, cube.outlier_kurtosis))
    everything = [line for lines in groups for line in lines]
    unit, label = style.progress_scale(cube, everything)
    figure, panels = place.grid(len(groups), len(QUANTITIES))
    for lines, row in zip(groups, panels):
        for axes, (name, what) in zip(row, QUANTITIES):
            values = over_blocks(cube, name) * (100 if name.endswith("_4") else 1)
            for site in cube.site.values:
                for line in lines:
                    draw_line(axes, line, unit, values.sel(site=site), LOOK[str(site)])
            if name == "outlier_kurtosis":
                axes.axhline(3, color=style.GREY, linestyle="--", linewidth=0.8, zorder=1)
            scale_log(axes)
            style.draw_learning_rate(place, axes, lines, unit, cube)
            place.title(axes, lines[0].model)
            axes.set_ylabel(what)
            style.name_progress(axes, label, lines, unit, cube)
    place.finish([style.handle(LOOK[str(site)], SITES[str(site)]) for site in cube.site.values] + style.context_handles(everything, cube))
    return figure
