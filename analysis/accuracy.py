"""Accuracy on multiple-choice tasks beside the loss over training, the pairing of arXiv 2510.06213: relative error of the loss on
each text, accuracy degradation, and the accuracies themselves, in full precision too. Accuracies are means over the tasks."""

import numpy as np

import over_training
import style
from cube import families, widths
from over_training import Quantity
from relative_error import ERROR

DEGRADATION = Quantity("Accuracy degradation (%)", "accuracy_degradation_mean", "accuracy_degradation_mean_stderr", 100)
ACCURACY = Quantity("Accuracy (%)", "accuracy_mean", "accuracy_mean_stderr", 100)
FULL = Quantity("Accuracy (%)", "baseline_accuracy_mean", "baseline_accuracy_mean_stderr", 100)


def measured(cube):
    return "accuracy_degradation_mean" in cube and bool(np.isfinite(cube.accuracy_degradation_mean).any())


def degradation_stderr(cube):
    """Paired standard error over items of the accuracy degradation of each task, (A - A') / (1 - A) of accuracies A before and A'
    after quantization: that of a ratio of two means over the same items, to first order. An item adds the square of what it lost,
    1, 0 or -1, minus the degradation if it was wrong in full precision. NaN where none was wrong, and for a single item."""
    items, lost, gained = cube["items"].where(cube["items"] > 1), cube.items_lost, cube.items_gained
    wrong = (items * (1 - cube.baseline_accuracy)).where(cube.baseline_accuracy < 1)
    degradation = (lost - gained) / wrong
    squares = lost + gained * (1 + degradation) ** 2 + (wrong - gained) * degradation**2
    return np.sqrt(squares * items / (items - 1)) / wrong


def with_errors(cube):
    """The cube with the standard error of accuracy_degradation_mean."""
    squares = (degradation_stderr(cube) ** 2).sum("task", skipna=False)
    return cube.assign({DEGRADATION.error: np.sqrt(squares) / cube.sizes["task"]})


def draw_accuracies(axes, lines, unit, cells):
    for line in lines:
        style.draw_curve(axes, line, unit, *FULL.of(cells), style.FULL_PRECISION)
    over_training.draw_methods(axes, lines, unit, cells, ACCURACY)


def draw_row(row, cube, lines, unit, width):
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
        style.title(axes, lines[0].model, f"{width} bits", what)


def draw(cube, bits):
    if not measured(cube):
        return None
    cube, bits = with_errors(cube), widths(cube, bits)
    groups = families(cube, averages=True)
    everything = [line for lines in groups for line in lines]
    unit, label = style.progress_scale(cube, everything)
    rows = [(lines, width) for lines in groups for width in bits]
    columns = cube.sizes["dataset"] + 2
    figure, panels = style.new_figure(len(rows), columns, width=3.1 if columns < 5 else max(2.2, 15 / columns))
    for (lines, width), row in zip(rows, panels):
        draw_row(row, cube, lines, unit, width)
        for axes in row:
            style.draw_learning_rate(axes, lines, unit, cube, axes is row[-1])
            style.name_progress(axes, label)
    style.finish(figure, [style.handle(style.FULL_PRECISION, "full precision")] + style.quantizer_handles(cube)
                 + style.context_handles(everything, style.has_learning_rate(cube)))
    return figure
