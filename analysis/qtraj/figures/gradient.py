"""The gradient's mean and variance over batches, over training."""

import numpy as np

from qtraj.cube.trajectories import families
from qtraj.figures import style
from qtraj.figures.figure import NONE, enough, figure_of_cube, points_of
from qtraj.figures.movement import draw_line, scale_log

NORMS = (("gradient_mean_norm", "of the mean", (style.BLACK, "*")), ("gradient_deviation", "of the noise (√variance)", (style.SKY, "P")))
RATIO = "gradient_signal_to_noise"


@figure_of_cube(
    "Mean and variance of the gradient over training",
    "At the left the Euclidean norm of the mean of the batches' gradients and the square root of the trace of the covariance of one "
    "batch's, at the right the signal-to-noise ratio of a batch: the squared norm of the expected gradient over that trace, both "
    "unbiased. Where it falls below 1 the noise of a batch is larger than what batches agree on. Points whose signal is not above "
    "zero are left out. Dotted: the learning rate.",
    f"{NONE}: that of the signal is about the trace over the number of batches.", "curvature",
    "gradients over batches (the sweep file's section gradient)")
def gradient(cube, bits, place):
    """Norm of the mean gradient over batches beside that of its noise, and their ratio, over training (the two phases of arXiv
    2411.17691, section 4.1). Averages are left out."""
    del bits
    if RATIO not in cube or not np.isfinite(cube[RATIO]).any():
        return None
    cube = cube.assign(gradient_deviation=np.sqrt(cube.gradient_variance))
    groups = enough(families(cube), lambda lines: points_of(lines, cube.gradient_variance))
    if not groups:
        return None
    everything = [line for lines in groups for line in lines]
    unit, label = style.progress_scale(cube, everything)
    figure, panels = place.grid(len(groups), 2, width=3.3, height=2.0)
    for lines, row in zip(groups, panels):
        for line in lines:
            for name, _, series in NORMS:
                draw_line(row[0], line, unit, cube[name], series)
            draw_line(row[1], line, unit, cube[RATIO], (style.BLACK, "*"))
        for axes, name in zip(row, ("Norm of the gradient", "Signal-to-noise of a batch")):
            scale_log(axes)
            style.draw_learning_rate(place, axes, lines, unit, cube)
            place.title(axes, lines[0].model)
            axes.set_ylabel(name)
            style.name_progress(axes, label, lines, unit, cube)
    place.finish([style.handle(series, what) for _, what, series in NORMS] + style.context_handles(everything, cube))
    return figure
