"""Accuracy degradation against relative error."""

import numpy as np

from qtraj.cube.accuracy import with_errors
from qtraj.cube.files import widths
from qtraj.cube.trajectories import checkpoint_labels, families
from qtraj.figures import colours, scatter, style
from qtraj.figures.accuracy import DEGRADATION, measured
from qtraj.figures.figure import OF_ITEMS, PAIRED, REPLICATED, enough, figure_of_cube, points_of
from qtraj.figures.relative_error import ERROR


def draw_method(axes, lines, cells, series):
    """The points of one method; bars of both sides."""
    x, y = ERROR.of(cells), DEGRADATION.of(cells)
    spread = ERROR.spread_of(cells)
    for line in lines:
        scatter.draw_points(axes, line, x, (*y, None), series, 1 + 0 * x[0])
        if spread is not None:
            known = np.isfinite(line.own(spread)) & np.isfinite(line.own(y[0]))
            axes.errorbar(line.own(x[0])[known], line.own(y[0])[known], xerr=line.own(spread)[known], color=series[0], linestyle="none",
                          capsize=0, elinewidth=0.6, zorder=3)


def draw_panel(axes, lines, part):
    found, series = [], colours.of_quantizers(part)
    for quantizer in map(str, part.quantizer.values):
        cells = part.sel(quantizer=quantizer)
        draw_method(axes, lines, cells, series[quantizer])
        found.append((quantizer, ERROR.of(cells)[0], DEGRADATION.of(cells)[0], series[quantizer][0]))
    scatter.write_correlations(axes, lines, found)
    axes.axhline(0, color=style.GREY, linewidth=0.6, zorder=1)
    axes.axvline(0, color=style.GREY, linewidth=0.6, zorder=1)


def label_panel(axes, cube, lines, part):
    """Steps at the first and the last checkpoint of each run, of the method that loses most accuracy, where there is space."""
    worst = int(np.argmax(np.nan_to_num(part.accuracy_degradation_mean.max(("model", "checkpoint")).values, nan=-1)))
    points, labels, others = [], [], []
    for i in range(part.sizes["quantizer"]):
        x, y = (quantity.of(part.isel(quantizer=i))[0] for quantity in (ERROR, DEGRADATION))
        for line in lines:
            found = list(zip(line.own(x), line.own(y)))
            ends = {0, len(found) - 1} if i == worst and not line.average else set()
            points += [found[k] for k in sorted(ends)]
            labels += [checkpoint_labels(cube, line)[k] for k in sorted(ends)]
            others += [point for k, point in enumerate(found) if k not in ends]
    style.label_points(axes, points, labels, avoid=others)


@figure_of_cube(
    "Accuracy degradation against relative error",
    "Checkpoint by checkpoint: accuracy degradation (A − A′)/(1 − A), the mean over tasks, against the relative error of the loss. A "
    "thin line joins the checkpoints in the order of training, numbers are the steps of the first and the last one, ρ is Spearman's rank "
    "correlation with its 95 % interval, without the averages.",
    f"sideways, {PAIRED}{REPLICATED}; upwards, {OF_ITEMS}.",
    "tasks", "accuracies, or of no cell those of all tasks (the sweep file's section tasks)")
def accuracy_loss(cube, bits, place):
    """Accuracy degradation, the mean over tasks, against the relative error of the loss, checkpoint by checkpoint: a panel for each
    run, text and bit-width. The text beside a panel is Spearman's rank correlation over the stored checkpoints."""
    if not measured(cube):
        return None
    cube, bits = with_errors(cube), widths(cube, bits)
    groups = families(cube, averages=True)
    wanted = enough([(lines, dataset, width) for lines in groups for dataset in cube.dataset.values for width in bits],
                    lambda one: points_of(one[0], cube.accuracy_degradation_mean.sel(bits=one[2])))
    if not wanted:
        return None
    figure, panels = place.panels(len(wanted), 3.3, 2.0)
    parts = [(axes, lines, cube.sel(dataset=dataset, bits=width)) for axes, (lines, dataset, width) in zip(panels, wanted)]
    for axes, lines, part in parts:
        draw_panel(axes, lines, part)
        place.title(axes, lines[0].model, f"{int(part.bits)} bits", str(part.dataset.values))
        axes.locator_params(axis="x", nbins=4, steps=[1, 2, 4, 5, 10])  # numbers of four decimals would touch in a column
        axes.set_xlabel(ERROR.label)
        axes.set_ylabel(DEGRADATION.label)
    place.finish(style.quantizer_handles(cube, bits, "accuracy_degradation_mean") + style.context_handles([line for lines in groups for line in lines]))
    for axes, lines, part in parts:
        label_panel(axes, cube, lines, part)
    return figure
