"""Single weights over training."""

import numpy as np
import xarray as xr
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from qtraj.cube.files import open_group, widths
from qtraj.cube.trajectories import Trajectory, families
from qtraj.figures import colours, style
from qtraj.figures.figure import NONE, enough, figure_of_cube
from qtraj.figures.movement import scale_log

SHOWN = 5  # weights of the left panel: of these many equal parts of the sample, by the last value, the middle one
BAND = (5, 95)  # percentiles


def weights_of(table: xr.Dataset, line: Trajectory, cube: xr.Dataset, bits: "list[int]") -> "dict[str | int, np.ndarray] | None":
    """By (checkpoint of the line, weight), in the order of the tensors' names: "weight", "change" since the checkpoint before, and for each of
    the bit-widths that are there the value that it is rounded to. table: the group movement_weights. NaN where there is none; the first
    checkpoint, which has no movement, has what the second says of it. None: the line has no single weights."""
    names = [str(name) for name in line.own(cube.checkpoint_name)]
    rows = table[["model", "checkpoint_name", "tensor", "element", "bits", "weight_before", "weight", "weight_rounded"]].to_dataframe()
    rows = rows[(rows.model == line.model) & rows.checkpoint_name.isin(names)]
    by_width = {width: rows[rows.bits == width].pivot(index="checkpoint_name", columns=["tensor", "element"]).reindex(names)
                for width in bits if (rows.bits == width).any()}
    if not by_width:
        return None
    found = {width: one.weight_rounded.to_numpy(float) for width, one in by_width.items()}
    any_width = next(iter(by_width.values()))
    weight, before = any_width.weight.to_numpy(float), any_width.weight_before.to_numpy(float)
    of = [str(name) for name in line.own(cube.movement_from)]
    for k in range(1, len(names)):
        if of[k] == names[k - 1] and np.isnan(weight[k - 1]).all():
            weight[k - 1] = before[k]
    return {"weight": weight, "change": any_width.weight.to_numpy(float) - before} | found


def draw_weights(axes, line, unit, found, shown, width):
    """A few weights, and what they are rounded to."""
    for k, weight in enumerate(shown):
        colour = colours.COLOURS[k]
        axes.plot(line.at / unit, found["weight"][:, weight], color=colour, linestyle=style.dash(line), zorder=3)
        if not line.number:
            axes.plot(line.at / unit, found[width][:, weight], color=colour, linestyle="none", marker="_", zorder=2)


def draw_sizes(axes, line, unit, found, bits):
    """Percentiles over the weights: of their changes between checkpoints, and of what rounding changes."""
    with np.errstate(invalid="ignore"):
        sizes = {name: np.abs(found["change"] if name == "change" else found[name] - found["weight"]) for name in ("change", *bits)}
    known = np.isfinite(sizes["change"]).all(axis=1)
    for name, size in sizes.items():
        low, middle, high = np.percentile(size[known], (BAND[0], 50, BAND[1]), axis=1)
        colour, marker = (style.BLACK, "*") if name == "change" else colours.of_bits(name)
        axes.plot(line.at[known] / unit, np.where(middle > 0, middle, np.nan), color=colour, linestyle=style.dash(line), marker=marker,
                  zorder=3, **style.marker_style(colour, line))
        if name == "change" and not line.number:
            axes.fill_between(line.at[known] / unit, np.maximum(low, high * 1e-3), high, color=style.GREY, alpha=0.25, linewidth=0, zorder=0)


@figure_of_cube(
    "Single weights over training",
    "At the left five of the weights that are sampled, the same ones at all checkpoints; dashes are the nearest values of the quantizer's grid "
    "at the narrowest bit-width. At the right medians over all sampled weights of |change| since the checkpoint before (ground: 5 to 95 % "
    "of the weights, cut at a thousandth of its upper end) and of |rounded − weight|: above the ground, quantization moves a weight out of the range of its recent changes. "
    "Checkpoints that are farther apart in training have moved farther. Dotted: the learning rate.",
    f"{NONE}: the numbers are exact, of a sample.", "weights", "single weights (the sweep file's keys movement and movement_weights)")
def weights_over_time(cube, bits, place):
    """Sampled single weights over training and what quantization makes of them (figure 12 of arXiv 2411.17691), beside the sizes of both
    changes. Averages are left out."""
    table = open_group(cube, "movement_weights")
    if table is None:
        return None
    bits = [int(width) for width in widths(cube, bits)]
    found = {line.model: weights_of(table, line, cube, bits) for lines in families(cube) for line in lines}
    groups = [[line for line in lines if found[line.model]] for lines in families(cube)]
    groups = enough([lines for lines in groups if lines], lambda lines: max(int(np.isfinite(found[line.model]["change"]).all(axis=1).sum()) for line in lines))
    if not groups:
        return None
    everything = [line for lines in groups for line in lines]
    bits = [width for width in bits if any(width in found[line.model] for line in everything)]
    unit, label = style.progress_scale(cube, everything)
    figure, panels = place.grid(len(groups), 2, width=3.3, height=2.0)
    for lines, row in zip(groups, panels):
        weight = found[lines[0].model]["weight"]
        order = np.argsort(weight[np.isfinite(weight).all(axis=1)][-1])
        shown = np.unique(order[((np.arange(SHOWN) + 0.5) / SHOWN * len(order)).astype(int)])
        for line in lines:
            there = [width for width in bits if width in found[line.model]]
            draw_weights(row[0], line, unit, found[line.model], shown, there[0])
            draw_sizes(row[1], line, unit, found[line.model], there)
        scale_log(row[1])
        for axes, name in zip(row, ("Weight", "Size of a change")):
            style.draw_learning_rate(place, axes, lines, unit, cube)
            place.title(axes, lines[0].model)
            axes.set_ylabel(name)
            style.name_progress(axes, label, lines, unit, cube)
    place.finish([Line2D([], [], color=style.GREY, label="a weight"), Line2D([], [], color=style.GREY, linestyle="none", marker="_", label="the same, rounded"),
                  style.handle((style.BLACK, "*"), "change since the checkpoint before"), Patch(color=style.GREY, alpha=0.25, label="5 to 95 % of the weights")]
                 + [style.handle(colours.of_bits(width), f"change by rounding to {width} bits") for width in bits]
                 + style.context_handles(everything, cube))
    return figure
