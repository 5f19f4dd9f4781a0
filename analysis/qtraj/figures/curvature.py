"""Relative error against sharpness and trace."""

import numpy as np
from matplotlib.lines import Line2D

from qtraj.cube.files import widths, with_replicates
from qtraj.cube.trajectories import checkpoint_labels, families
from qtraj.figures import colours, scatter, style
from qtraj.figures.figure import PAIRED, REPLICATED, enough, figure_of_cube, points_of

QUANTITIES = (("sharpness", "sharpness_residual", "Sharpness (largest eigenvalue)"),
              ("trace", "trace_stderr", "Trace of the Hessian"))


def measured(cube):
    """Whether the cube has the curvature values that this figure draws."""
    return "trace" in cube and any(np.isfinite(cube[name]).any() for name, _, _ in QUANTITIES)


def draw_panel(axes, cube, lines, part, quantity):
    name, error, _ = quantity
    converged = cube.sharpness_converged if name == "sharpness" else 1 + 0 * cube[name]
    unsure = sum(int((line.own(converged) == 0).sum()) for line in lines)
    all_of_them = sum(len(line.places) for line in lines)
    height, series, found = 0.0, colours.of_quantizers(cube), []
    if unsure:
        height = scatter.write_beside(axes, f"{unsure} of {all_of_them} not converged:\nρ is that of estimates", height, style.GREY)
    for quantizer in map(str, cube.quantizer.values):
        one = part.sel(quantizer=quantizer)
        spread = with_replicates(one, "loss_relative", "loss_relative_stderr")
        y = (100 * one.loss_relative, 100 * one.loss_relative_stderr, None if spread is None else 100 * spread)
        for line in lines:
            scatter.draw_points(axes, line, (cube[name], cube[error]), y, series[quantizer], converged)
        found.append((quantizer, cube[name], y[0], series[quantizer][0]))
    scatter.write_correlations(axes, lines, found, height)


def label_panel(axes, cube, lines, part, quantity):
    """Steps at the points of the method that lies highest, where there is space."""
    best = max(cube.quantizer.values, key=lambda q: np.nan_to_num(part.sel(quantizer=q).loss_relative.max().item(), nan=-1))

    def points_of(quantizer, lines):
        y = 100 * part.sel(quantizer=quantizer).loss_relative
        return [p for line in lines for p in zip(line.own(cube[quantity[0]]), line.own(y))]

    own = scatter.stored(lines)
    averages = [line for line in lines if line.average]
    points = points_of(best, own)
    others = [p for quantizer in cube.quantizer.values if quantizer != best for p in points_of(quantizer, lines)]
    labels = [label for line in own for label in checkpoint_labels(cube, line)]
    style.label_points(axes, points, labels, first=(0, len(own[0].places) - 1, len(points) - 1),
                       avoid=others + points_of(best, averages))


@figure_of_cube(
    "Relative error against sharpness and trace",
    "Checkpoint by checkpoint against the largest eigenvalue and the trace of the Hessian of the full-precision loss; a thin line "
    "joins the checkpoints in the order of training, numbers are steps, ρ is Spearman's rank correlation with its 95 % interval, "
    "without the averages, which are points of their own. Hollow markers: the eigenvalue has not converged.",
    f"upwards, {PAIRED}{REPLICATED}; sideways, the standard error of the trace over its random probes, and of sharpness the residual "
    "‖Hv − λv‖, within which there is an eigenvalue.", "curvature", "curvature (the sweep file's section curvature)")
def curvature(cube, bits, place):
    """Relative error beside the curvature of the full-precision loss: against sharpness (the largest eigenvalue of the Hessian) and
    against the trace of the Hessian with its standard error. A thin line joins the checkpoints of a run in training order, labels
    are steps, and the text beside each panel gives Spearman's rank correlation over its stored checkpoints with a 95 % interval;
    averages are points of their own, which it leaves out."""
    if not measured(cube):
        return None
    bits = widths(cube, bits)
    groups = families(cube, averages=True)
    there = [q for q in QUANTITIES if np.isfinite(cube[q[0]]).any()]
    known = sum(np.isfinite(cube[q[0]]) for q in there) > 0
    rows = enough([(lines, dataset, width) for lines in groups for dataset in cube.dataset.values for width in bits],
                  lambda row: points_of(row[0], cube.loss_relative.sel(dataset=row[1], bits=row[2]).where(known)))
    if not rows:
        return None
    figure, panels = place.grid(len(rows), len(there), width=3.3, height=2.0)
    for (lines, dataset, width), row in zip(rows, panels):
        part = cube.sel(dataset=dataset, bits=width)
        for axes, quantity in zip(row, there):
            if not points_of(lines, part.loss_relative.where(np.isfinite(cube[quantity[0]]))):
                place.leave_out(axes)
                continue
            draw_panel(axes, cube, lines, part, quantity)
            place.title(axes, lines[0].model, f"{width} bits", dataset)
            axes.set(xlabel=quantity[2], ylabel="Relative error (%)")
    drawn = [line for lines in groups for line in lines if points_of([line], cube.loss_relative.where(known))]
    handles = style.quantizer_handles(cube, bits) + style.context_handles(drawn)
    if "sharpness" in (q[0] for q in there) and (cube.sharpness_converged == 0).any():
        handles.append(Line2D([], [], color=style.GREY, linestyle="none", marker="o",
                                        label="sharpness not converged", **style.marker_style(style.GREY, hollow=True)))
    place.finish(handles)
    for (lines, dataset, width), row in zip(rows, panels):
        for axes, quantity in zip(row, there):
            if axes in place.all:
                label_panel(axes, cube, lines, cube.sel(dataset=dataset, bits=width), quantity)
    return figure
