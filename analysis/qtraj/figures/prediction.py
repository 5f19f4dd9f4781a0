"""Predicted and actual difference of loss."""

import numpy as np
from matplotlib.lines import Line2D

from qtraj.cube.files import widths
from qtraj.cube.trajectories import checkpoint_labels, families
from qtraj.figures import colours, style
from qtraj.figures.figure import NONE, enough, figure_of_cube, points_of


def predictions(cells):
    """Both predictions by (model, checkpoint), and whether their markers are hollow."""
    return (cells.first_order + cells.second_order, False), (cells.second_order, True)


def draw_panel(axes, cube, lines, width):
    ends, series = [], colours.of_quantizers(cube)
    for quantizer in cube.quantizer.values:
        cells = cube.sel(bits=width, quantizer=quantizer)
        colour, marker = series[str(quantizer)]
        for line in lines:
            true = line.own(cells.true_difference)
            for predicted, hollow in predictions(cells):
                x = line.own(predicted)
                axes.plot(x, true, marker, color=colour, linestyle="none", **style.marker_style(colour, line, hollow))
                ends += [x, true]
    ends = np.concatenate(ends)
    if np.isfinite(ends).any():
        ends = [np.nanmin(ends), np.nanmax(ends)]
        axes.plot(ends, ends, color=style.GREY, linestyle=":", zorder=1)
    axes.locator_params(axis="x", nbins=4)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:.4g}")


def label_panel(axes, cube, lines, width):
    """Steps of the method with the greatest difference, where there is space."""
    part = cube.sel(bits=width)
    highest = max(part.quantizer.values, key=lambda name: np.nan_to_num(part.true_difference.sel(quantizer=name).max().item(), nan=-1))
    points, labels, others = [], [], []
    for quantizer in part.quantizer.values:
        cells = part.sel(quantizer=quantizer)
        for line in lines:
            full, alone = (list(zip(line.own(predicted), line.own(cells.true_difference))) for predicted, _ in predictions(cells))
            others += alone
            if quantizer == highest:
                points += full
                labels += checkpoint_labels(cube, line)
            else:
                others += full
    style.label_points(axes, points, labels, first=(len(points) - 1,), avoid=others)


@figure_of_cube(
    "Predicted and actual difference of loss",
    "What gradient g and Hessian H at the full-precision weights predict for the change δ of the weights, against what "
    "quantization does to the loss on the same tokens. On the dotted line both are equal; numbers are steps of the method "
    "with the greatest difference.",
    f"{NONE}: prediction and difference are exact on these tokens.", "curvature", "second-order predictions (curvature.second_order)")
def prediction(cube, bits, place):
    """What gradient and Hessian say of each cell's loss, against what it is: a row a model, a panel a width. Labels are the steps of
    the method with the greatest difference."""
    if "second_order" not in cube or not np.isfinite(cube.second_order.values).any():
        return None
    there = [int(width) for width in cube.bits.values if np.isfinite(cube.second_order.sel(bits=width)).any()]
    bits = widths(cube.sel(bits=there), bits)
    groups = enough(families(cube), lambda lines: points_of(lines, cube.second_order.sel(bits=bits)))
    if not groups:
        return None
    figure, panels = place.grid(len(groups), len(bits), height=2.0)
    for lines, row in zip(groups, panels):
        for axes, width in zip(row, bits):
            if not points_of(lines, cube.second_order.sel(bits=width)):
                place.leave_out(axes)
                continue
            draw_panel(axes, cube, lines, width)
            place.title(axes, lines[0].model, f"{width} bits")
            axes.set(xlabel="Predicted difference (nats)", ylabel="True difference (nats)")
    handles = style.quantizer_handles(cube, bits, "second_order")
    handles += [Line2D([], [], color=style.GREY, linestyle="none", marker="o", label=name,
                           **style.marker_style(style.GREY, hollow=hollow))
                for name, hollow in (("gᵀδ + ½δᵀHδ", False), ("½δᵀHδ alone", True))]
    handles.append(Line2D([], [], color=style.GREY, linestyle=":", label="equal"))
    handles += style.context_handles([line for lines in groups for line in lines if points_of([line], cube.second_order.sel(bits=bits))])
    place.finish(handles)
    for lines, row in zip(groups, panels):
        for axes, width in zip(row, bits):
            if axes in place.all:
                label_panel(axes, cube, lines, width)
    return figure
