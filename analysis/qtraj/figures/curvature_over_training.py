"""Curvature of the loss, and how far quantization moves the weights, over training."""

import numpy as np

from qtraj.cube.files import widths
from qtraj.cube.trajectories import families
from qtraj.figures import style
from qtraj.figures.curvature import measured
from qtraj.figures.figure import PAIRED, REPLICATED, enough, figure_of_cube, points_of
from qtraj.figures.over_training import Quantity, draw_methods
from qtraj.figures.relative_error import ERROR

CURVATURE = [Quantity("Sharpness (largest eigenvalue)", "sharpness", "sharpness_residual"), Quantity("Trace of the Hessian", "trace", "trace_stderr")]
CHANGE = Quantity("Change of the weights ‖Ŵ − W‖", "weight_distance")


@figure_of_cube(
    "Curvature over training",
    "The largest eigenvalue and the trace of the Hessian of the full-precision loss, and for each bit-width the change of the weights by "
    "quantization and the relative error, a colour and marker a method. Dotted: the learning rate.",
    f"of sharpness the residual ‖Hv − λv‖, within which there is an eigenvalue; of the trace the standard error over its random probes; of errors {PAIRED}{REPLICATED}.",
    "curvature", "curvature (the sweep file's section curvature)")
def curvature_over_training(cube, bits, place):
    """Sharpness, trace, ‖Ŵ − W‖ and the relative error CE(quantized)/CE - 1 over training (figure 9 of arXiv 2510.06213). A row is a run with
    its branches and averages, and a text."""
    if not measured(cube):
        return None
    groups, bits = families(cube, averages=True), widths(cube, bits)
    of_loss = [quantity for quantity in CURVATURE if np.isfinite(cube[quantity.value]).any()]
    of_cells = [(quantity, width) for quantity in (CHANGE, ERROR) for width in bits if np.isfinite(cube[quantity.value].sel(bits=width)).any()]
    rows = enough([(lines, dataset) for lines in groups for dataset in cube.dataset.values],
                  lambda row: max(points_of(row[0], cube[quantity.value]) for quantity in of_loss))
    everything = [line for lines in groups for line in lines]
    unit, label = style.progress_scale(cube, everything)
    figure, panels = place.grid(len(rows), len(of_loss) + len(of_cells))
    for (lines, dataset), row in zip(rows, panels):
        part = cube.sel(dataset=dataset)
        for axes, (quantity, width) in zip(row, [(quantity, None) for quantity in of_loss] + of_cells):
            cells = part if width is None else part.sel(bits=width)
            if points_of(lines, cells[quantity.value]) < 2:
                place.leave_out(axes)
                continue
            if width is None:
                for line in lines:
                    style.draw_curve(axes, line, unit, *quantity.of(cells), style.FULL_PRECISION)
            else:
                draw_methods(axes, lines, unit, cells, quantity)
            style.draw_learning_rate(place, axes, lines, unit, cube)
            place.title(axes, lines[0].model, f"{width} bits" if width else "full precision", dataset)
            axes.set_ylabel(quantity.label)
            style.name_progress(axes, label, lines, unit, cube)
    place.finish([style.handle(style.FULL_PRECISION, "full precision")] + style.quantizer_handles(cube, bits) + style.context_handles(everything, cube))
    return figure
