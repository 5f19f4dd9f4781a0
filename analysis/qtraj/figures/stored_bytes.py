"""Loss and accuracy against the bytes of the models that are stored."""

import numpy as np
import pandas

from qtraj.cube.files import natural, widths
from qtraj.cube.trajectories import families
from qtraj.figures import colours, style
from qtraj.figures.figure import OF_ITEMS, PAIRED, figure_of_cube
from qtraj.figures.frontier import best

FULL = 16  # bits of weights that are not quantized
COLUMNS = ("model", "bits", "quantizer", "dataset", "bytes", "loss", "accuracy")


def models_of(cube, bits):
    """A row for each end of a run in full precision (bits 16, quantizer "") and quantized, and text, with the columns COLUMNS; branches count as
    runs. bytes: the weights that a method leaves alone, such as the embedding, in 16 bits, the others at its bits_per_weight. accuracy: per
    cent, the mean over tasks, NaN where there is none."""
    rows = []
    for line in (line for lines in families(cube) for line in lines):
        one = cube.sel(model=line.model).isel(checkpoint=line.places[-1])
        inner = float(one.parameters_non_embedding)
        outer = max(0.0, float(one.parameters) - inner) if "parameters" in one else 0.0
        for dataset in map(str, cube.dataset.values):
            accuracy = float(one.baseline_accuracy_mean) if "baseline_accuracy_mean" in one else np.nan
            rows.append((line.model, FULL, "", dataset, (inner + outer) * FULL / 8, float(one.baseline_loss.sel(dataset=dataset)), 100 * accuracy))
            for width in bits:
                for quantizer in map(str, cube.quantizer.values):
                    cell = one.sel(bits=width, quantizer=quantizer)
                    accuracy = float(cell.accuracy_mean) if "accuracy_mean" in cell else np.nan
                    rows.append((line.model, width, quantizer, dataset, (inner * float(cell.bits_per_weight) + outer * FULL) / 8,
                                 float(cell.loss.sel(dataset=dataset)), 100 * accuracy))
    return pandas.DataFrame(rows, columns=COLUMNS)


@figure_of_cube(
    "Loss and accuracy against bytes",
    "The last checkpoint of every run and branch in full precision and quantized, against the bytes of its weights: those that a method leaves "
    "alone take 16 bits. The line joins the models that none with as few bytes beats; numbers are their bit-widths.",
    f"{PAIRED}, and {OF_ITEMS}; they are not drawn", "tasks", "cells of models of two sizes")
def stored_bytes(cube, bits, place):
    """Loss, and accuracy where tasks were measured, of all runs at the end of their training over the bytes of their weights, a panel a text,
    with the frontier."""
    if "bits_per_weight" not in cube or "parameters_non_embedding" not in cube:
        return None
    rows = models_of(cube, widths(cube, bits))
    rows = rows[np.isfinite(rows.bytes)]
    wanted = [(dataset, "loss", "Loss (nats a token)", 1) for dataset in map(str, cube.dataset.values)] + [("", "accuracy", "Accuracy (%)", -1)]
    panels = []
    for dataset, column, label, sign in wanted:
        of = rows[np.isfinite(rows[column]) & (rows.dataset == (dataset or rows.dataset.iloc[0]))].reset_index(drop=True) if len(rows) else rows
        if of[of.bits == FULL].bytes.nunique() > 1 and (of.bits != FULL).any():
            panels.append((of, dataset, column, label, sign))
    if not panels:
        return None
    series = colours.of_names(sorted(rows.model.unique(), key=natural))
    figure, all_axes = place.panels(len(panels), 3.3, 2.4)
    labels = []
    for axes, (of, dataset, column, label, sign) in zip(all_axes, panels):
        for model, own in of.groupby("model"):
            axes.plot(own.bytes, own[column], series[model][1], color=series[model][0], markerfacecolor="none", alpha=0.7, zorder=3)
        front = of.iloc[best(of.bytes.to_numpy(), sign * of[column].to_numpy())]
        axes.plot(front.bytes, front[column], "-", color=style.GREY, linewidth=1.0, zorder=2)
        axes.set_xscale("log")
        axes.set(xlabel="Bytes of the weights", ylabel=label)
        place.title(axes, dataset)
        labels.append((axes, list(zip(front.bytes, front[column])), [f"{width:g}" for width in front.bits], (), list(zip(of.bytes, of[column]))))
    place.finish([style.handle(series[model], model) for model in series])
    for of_panel in labels:
        style.label_points(*of_panel)
    return figure
