"""Draws every figure of cubes and checks the positions of their texts:  check_figures.py ANALYSIS FOLDER CUBE...

Fails if a text (title, label, tick label, legend entry) is outside the canvas or overlaps another, if a figure is wider
than a page, if a legend lacks a method or a branch, if an axis of steps or checkpoints has fractions, or if the markers of
sharpnesses that have not converged, and no others, are not hollow. Writes the pictures to FOLDER/CUBE/."""

import itertools
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
import matplotlib  # noqa: E402
import numpy as np  # noqa: E402
from figure_texts import text_complaints  # noqa: E402
from matplotlib.image import imsave  # noqa: E402

from qtraj import figures  # noqa: E402
from qtraj.cube.files import open_group, read  # noqa: E402

# Cubes that are like another but for what these figures show: a run of two_models with surfaces; two runs of other sizes with tasks; runs of
# two_models with imitations; a run whose axis is of steps and whose sharpness has not converged.
ONLY = {"surfaces": {"loss_surface"}, "two_sizes": {"stored_bytes", "frontier", "accuracy", "accuracy_loss", "quantized_loss"},
        "changes": {"imitations", "methods", "relative_error"}, "unconverged": {"relative_error", "quantized_loss", "curvature", "prediction"}}


def hollow(figure):
    """Points with hollow markers."""
    return sum(int(np.isfinite(line.get_ydata()).sum()) for axes in figure.axes for line in axes.lines
               if line.get_marker() not in ("", "None", None, "_", "|") and line.get_markerfacecolor() == "white")


def unsure(cube):
    """Points of the curvature figure whose sharpness has not converged: one a width, method and text."""
    values = cube.loss_relative.where((cube.sharpness_converged == 0) & np.isfinite(cube.sharpness))
    return int(np.isfinite(values).sum())


def axis_complaints(figure):
    for axes in figure.axes:
        low, high = sorted(axes.get_xlim())
        ticks = [t for t in axes.get_xticks() if low <= t <= high]
        if axes.get_xlabel() in ("Training steps", "Checkpoint") and any(t != round(t) for t in ticks):
            yield f"the axis of {axes.get_xlabel()} has fractions: {ticks}"


def surface_complaints(figure, cube):
    """Few points that span a plane all have labels."""
    rows = open_group(cube, "surfaces")
    for surface in dict.fromkeys(rows.surface.values):
        points = int(((rows.surface.values == surface) & (rows.point.values != "")).sum())
        panels = [axes for axes in figure.axes if surface in axes.get_title().replace("\n", " ").split(", ")]
        labels = sum(len(axes.texts) for axes in panels)
        if len(panels) != 1 or (points <= 10 and labels != points):
            yield f"{surface}: {labels} labels for {points} points in {len(panels)} panels"


def legend_complaints(figure):
    """Legends lie outside of all panels."""
    renderer = figure.canvas.get_renderer()
    for legend in figure.legends + [axes.get_legend() for axes in figure.axes if axes.get_legend()]:
        box = legend.get_window_extent(renderer).padded(-1)
        if any(box.overlaps(axes.get_window_extent(renderer)) for axes in figure.axes):
            yield "the legend covers a panel"


def complaints(figure, cube, name):
    yield from text_complaints(figure)  # which draws it
    yield from axis_complaints(figure)
    yield from legend_complaints(figure)
    if any(not axes.has_data() for axes in figure.axes):
        yield "an empty panel"
    if name == "loss_surface":
        yield from surface_complaints(figure, cube)
    if name == "curvature" and hollow(figure) != unsure(cube):
        yield f"{hollow(figure)} hollow markers, but {unsure(cube)} points whose sharpness has not converged"
    entries = {t.get_text() for legend in figure.legends for t in legend.get_texts()}
    if name in ("relative_error", "validation_loss", "agreement", "curvature", "curvature_over_training", "prediction", "quantized_loss", "bit_widths", "accuracy", "accuracy_loss"):
        for quantizer in cube.quantizer.values:
            if str(quantizer) not in entries:
                yield f"{quantizer} is not in the legend"
        for model, parent in zip(cube.model.values, cube.branch_of.values):
            if parent and not any(entry.startswith("branch") and str(model) in entry for entry in entries):
                yield f"the branch {model} is not in the legend"
    if name in ("relative_error", "curvature", "curvature_over_training", "accuracy", "accuracy_loss"):
        for average in {str(a) for a in cube.average.values.ravel()} - {""} if "average" in cube else ():
            if not any(entry.startswith("average") and average in entry for entry in entries):
                yield f"the average {average} is not in the legend"


def main():
    matplotlib.rcParams.update(figures.style.LOOK)
    widths = itertools.cycle((None, 3.3))  # every other figure as wide as a column
    out, bad, drawn = pathlib.Path(sys.argv[2]), 0, 0
    for path in map(pathlib.Path, sys.argv[3:]):
        cube = read(path)
        folder = out / path.stem
        folder.mkdir(parents=True, exist_ok=True)
        for draw in figures.FIGURES:
            name = draw.__name__
            if name not in ONLY.get(path.stem, {name}):
                continue
            try:
                figure = draw(cube, width=next(widths))
            except figures.NoNumbers:
                continue
            drawn += 1
            for complaint in complaints(figure, cube, name):
                bad += 1
                print(f"{path.stem}: {name}: {complaint}")
            imsave(folder / f"{name}.png", figure.canvas.buffer_rgba())  # as it was drawn for its texts
    print(f"{drawn} figures, {bad} complaints")
    sys.exit(bad > 0 or drawn == 0)


if __name__ == "__main__":
    main()
