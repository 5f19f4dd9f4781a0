"""Draws every figure of cubes and checks the positions of their texts:  check_figures.py ANALYSIS FOLDER CUBE...

Fails if a text (title, label, tick label, legend entry) is outside the canvas or overlaps another, if a figure is wider
than a page, or if a legend lacks a method. Writes the pictures to FOLDER/CUBE/."""

import pathlib
import sys

sys.path.insert(0, sys.argv[1])
import figures  # noqa: E402
import style  # noqa: E402
from cube import open_cube  # noqa: E402
from matplotlib.text import Text  # noqa: E402

MOST_INCHES = 20
SLACK = 1.0  # pixels


def texts_of(figure):
    """The visible texts and their boxes."""
    renderer = figure.canvas.get_renderer()
    found = []
    for axis in (a for axes in figure.axes if axes.get_visible() for a in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = axis.get_major_ticks() + axis.get_minor_ticks()
        for tick in ticks:  # those outside the view are not drawn
            inside = low - 1e-9 * abs(high - low) <= tick.get_loc() <= high + 1e-9 * abs(high - low)
            for label in (tick.label1, tick.label2):
                label._drawn = inside
    for text in figure.findobj(Text):
        if not text.get_visible() or not text.get_text().strip() or not getattr(text, "_drawn", True):
            continue
        if any(not getattr(parent, "get_visible", lambda: True)() for parent in (text.axes,) if parent is not None):
            continue
        found.append((text.get_text(), text.get_window_extent(renderer)))
    return found


def complaints(figure, cube, name):
    figure.canvas.draw()
    canvas = figure.bbox
    texts = texts_of(figure)
    for text, box in texts:
        if (box.x0 < canvas.x0 - SLACK or box.x1 > canvas.x1 + SLACK or box.y0 < canvas.y0 - SLACK
                or box.y1 > canvas.y1 + SLACK):
            yield f"{text!r} lies outside the canvas"
    for i, (text, box) in enumerate(texts):
        for other, at in texts[i + 1:]:
            wide = min(box.x1, at.x1) - max(box.x0, at.x0)
            high = min(box.y1, at.y1) - max(box.y0, at.y0)
            if wide > SLACK and high > SLACK:
                yield f"{text!r} lies over {other!r}"
    if figure.get_figwidth() > MOST_INCHES:
        yield f"{figure.get_figwidth():.1f} inches wide"
    entries = {t.get_text() for legend in figure.legends for t in legend.get_texts()}
    if name in ("relative_error", "validation_loss", "agreement", "curvature", "prediction"):
        for quantizer in cube.quantizer.values:
            if str(quantizer) not in entries:
                yield f"{quantizer} is not in the legend"


def main():
    out, bad, drawn = pathlib.Path(sys.argv[2]), 0, 0
    for path in map(pathlib.Path, sys.argv[3:]):
        cube = open_cube(path)
        folder = out / path.stem
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in figures.FIGURES.items():
            figure = draw(cube, None)
            if figure is None:
                continue
            drawn += 1
            for complaint in complaints(figure, cube, name):
                bad += 1
                print(f"{path.stem}: {name}: {complaint}")
            figure.savefig(folder / f"{name}.png", dpi=100)
            style.plt.close(figure)
    print(f"{drawn} figures, {bad} complaints")
    sys.exit(bad > 0 or drawn == 0)


if __name__ == "__main__":
    main()
