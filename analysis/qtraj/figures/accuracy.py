"""Accuracy and loss over training."""

import numpy as np

from qtraj.cube.accuracy import with_errors
from qtraj.cube.files import widths
from qtraj.cube.trajectories import families
from qtraj.figures import over_training, style
from qtraj.figures.figure import OF_ITEMS, PAIRED, REPLICATED, enough, figure_of_cube, points_of
from qtraj.figures.over_training import Quantity
from qtraj.figures.relative_error import ERROR

DEGRADATION = Quantity("Accuracy degradation (%)", "accuracy_degradation_mean", "accuracy_degradation_mean_stderr", 100)
ACCURACY = Quantity("Accuracy (%)", "accuracy_mean", "accuracy_mean_stderr", 100)
FULL = Quantity("Accuracy (%)", "baseline_accuracy_mean", "baseline_accuracy_mean_stderr", 100)


def measured(cube):
    return "accuracy_degradation_mean" in cube and bool(np.isfinite(cube.accuracy_degradation_mean).any())


def draw_accuracies(axes, lines, unit, cells):
    for line in lines:
        style.draw_curve(axes, line, unit, *FULL.of(cells), style.FULL_PRECISION)
    over_training.draw_methods(axes, lines, unit, cells, ACCURACY)


def draw_row(place, row, cube, lines, unit, width):
    """One run at one bit-width: a panel for each text, one of the degradation, one of accuracies."""
    cells = cube.sel(bits=width)
    texts = [str(name) for name in cube.dataset.values]
    for axes, text in zip(row, texts):
        over_training.draw_methods(axes, lines, unit, cells.sel(dataset=text), ERROR)
    over_training.draw_methods(row[-2], lines, unit, cells, DEGRADATION)
    draw_accuracies(row[-1], lines, unit, cells)
    mean = f"mean over {cube.sizes['task']} tasks" if cube.sizes["task"] > 1 else str(cube.task.values[0])
    labels = [ERROR.label] * len(texts) + [DEGRADATION.label, ACCURACY.label]
    for axes, label, what in zip(row, labels, texts + [mean] * 2):
        if label != ACCURACY.label:
            axes.axhline(0, color=style.GREY, linewidth=0.6, zorder=1)
        axes.set_ylabel(label)
        place.title(axes, lines[0].model, f"{width} bits", what)


@figure_of_cube(
    "Accuracy and loss over training",
    "A row is a run with its branches and averages at one bit-width. From the left: relative error of the loss, CE(quantized)/CE(full precision) − 1; "
    "accuracy degradation (A − A′)/(1 − A) of the accuracies A in full precision and A′ quantized, the mean over tasks (below zero, "
    "quantization gains accuracy); the mean accuracies themselves. Dotted: the learning rate.",
    f"of the relative error, {PAIRED}{REPLICATED}; of the degradation, {OF_ITEMS}; of accuracies, one standard error over items, not paired.",
    "tasks", "accuracies, or of no cell those of all tasks (the sweep file's section tasks)")
def accuracy(cube, bits, place):
    """Accuracy on multiple-choice tasks beside the loss over training, the pairing of arXiv 2510.06213: relative error of the loss on
    each text, accuracy degradation, and the accuracies themselves, in full precision too. Accuracies are means over the tasks."""
    if not measured(cube):
        return None
    cube, bits = with_errors(cube), widths(cube, bits)
    groups = families(cube, averages=True)
    everything = [line for lines in groups for line in lines]
    unit, label = style.progress_scale(cube, everything)
    rows = enough([(lines, width) for lines in groups for width in bits],
                  lambda row: points_of(row[0], cube.accuracy_degradation_mean.sel(bits=row[1])))
    if not rows:
        return None
    columns = cube.sizes["dataset"] + 2
    figure, panels = place.grid(len(rows), columns)
    for (lines, width), row in zip(rows, panels):
        draw_row(place, row, cube, lines, unit, width)
        for axes in row:
            style.draw_learning_rate(place, axes, lines, unit, cube)
            style.name_progress(axes, label, lines, unit, cube)
    place.finish([style.handle(style.FULL_PRECISION, "full precision")] + style.quantizer_handles(cube, bits, "accuracy_degradation_mean")
                 + style.context_handles(everything, cube))
    return figure
