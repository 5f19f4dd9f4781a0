"""Curves of training, and errors below them."""

import numpy as np

from qtraj.cube.files import open_group, widths
from qtraj.cube.trajectories import families, progress
from qtraj.figures import colours, style
from qtraj.figures.figure import PAIRED, REPLICATED, figure_of_cube, points_of
from qtraj.figures.place import PAGE
from qtraj.figures.relative_error import ERROR

AT = {"Training tokens": "tokens", "Training steps": "step"}  # column of the curves by the axis of training


def part_of(rows, line, at):
    """Progress, losses in training and held out, and rate of a run's rows."""
    mine = rows.isel({rows.model.dims[0]: np.flatnonzero(rows.model.values == line.model)})
    return [mine[name].values.astype(float) for name in (at, "training_loss", "validation_loss", "learning_rate")]


def draw_losses(place, axes, lines, curves, unit):
    for line in lines:
        x, loss, held_out, _ = curves[line.model]
        known = np.isfinite(held_out)
        axes.plot(x / unit, loss, color=style.GREY, linestyle=style.dash(line), linewidth=0.7, zorder=2)
        colour, _ = series = style.OF_TRAINING["validation_loss"][0]
        axes.plot(x[known] / unit, held_out[known], color=colour, linestyle=style.dash(line), zorder=3)
        style.draw_points(axes, x[known] / unit, held_out[known], None, None, series, style.marker_style(colour, line))
    style.draw_rates(place, axes, [curves[line.model][::3] for line in lines], unit)
    axes.set_ylabel("Loss (nats)")


def methods_of(cube):
    """The methods that have errors, of those that were chosen; else gptq, or the first; [None]: none has."""
    there = [str(name) for name in cube.quantizer.values if np.isfinite(cube.loss_relative.sel(quantizer=name)).any()] or [None]
    return there if "chosen_quantizer" in cube.attrs else [min(there, key=lambda name: name != "gptq")]


def without_curves(cube):
    """In words, the runs and branches that have no curves where others have; empty: none."""
    rows = open_group(cube, "training_curves")
    names = [] if rows is None else [line.model for lines in families(cube) for line in lines if not (rows.model.values == line.model).any()]
    return f"without {', '.join(names)}: no steps.csv of qtraj train lies beside the trajectory table" if names else ""


@figure_of_cube(
    "Curves of training, and errors below them",
    "Above, the loss in training (means over equally many steps where there are more than 500) and on what was held out, with the learning rate "
    "dotted; below, the relative error at the same tokens, of gptq, or the first method, or those that are chosen.",
    f"of errors, {PAIRED}{REPLICATED}.", "evaluation", "curves of training (of runs that qtraj train trained)",
    without_curves)
def training(cube, bits, place):
    """Loss in training, held-out loss and learning rate of the runs that `qtraj train` trained, from its table of steps, and below
    them the relative error of gptq, or the first method, or of those that the cube was cut to. A pair of panels for a run and its branches, a
    text, and a method."""
    rows = open_group(cube, "training_curves")
    if rows is None:
        return None
    groups = [[line for line in lines if (rows.model.values == line.model).any()] for lines in families(cube)]
    methods, bits = methods_of(cube), widths(cube, bits)
    everything = [line for lines in groups for line in lines]
    at = AT.get(progress(cube)[1])
    if at is None or not everything:
        return None
    unit, label = style.progress_scale(cube, everything)
    curves = {line.model: part_of(rows, line, at) for line in everything}
    pairs = [(lines, dataset, method) for lines in groups if lines for dataset in cube.dataset.values for method in methods]
    across = min(len(pairs), max(1, int(((place.width or PAGE) + 0.1) / 2.2)))
    figure, panels = place.grid(2 * -(-len(pairs) // across), across)
    drawn = set()
    for i in range(panels.size // 2):
        above, below = panels[2 * (i // across):, i % across][:2]
        if i >= len(pairs):
            place.leave_out(above)
            place.leave_out(below)
            continue
        lines, dataset, method = pairs[i]
        draw_losses(place, above, lines, curves, unit)
        place.title(above, lines[0].model, dataset, method)
        cells = cube.sel(dataset=dataset)
        shown = [width for width in bits if method and points_of(lines, cells.loss_relative.sel(bits=width, quantizer=method))]
        for width in shown:
            one = cells.sel(bits=width, quantizer=method)
            for line in lines:
                style.draw_curve(below, line, unit, *ERROR.of(one), colours.of_bits(width), ERROR.spread_of(one))
        if not shown:
            place.leave_out(below)
        else:
            below.set_ylabel(ERROR.label)
            below.set_xlim(above.get_xlim())
        style.name_progress(below if shown else above, label, lines, unit, cube)
        drawn.update(shown)
    look, (held_out, _) = style.OF_TRAINING["training_loss"], style.OF_TRAINING["validation_loss"]
    handles = [style.handle((look[0][0], ""), look[1]), style.handle(held_out, style.OF_TRAINING["validation_loss"][1])]
    handles += [style.handle(colours.of_bits(width), f"{methods[0] + ', ' if len(methods) == 1 else ''}{width} bits") for width in bits if width in drawn]
    place.finish(handles + style.context_handles(everything, cube))
    return figure
