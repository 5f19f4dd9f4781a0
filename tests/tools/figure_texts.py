"""Positions of the texts of a figure."""

import numpy as np
from matplotlib.text import Text

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


def text_complaints(figure):
    """Texts that lie outside the canvas or over another, and a figure that is wider than a page."""
    figure.canvas.draw()
    canvas = figure.bbox
    texts = texts_of(figure)
    for text, box in texts:
        if (box.x0 < canvas.x0 - SLACK or box.x1 > canvas.x1 + SLACK or box.y0 < canvas.y0 - SLACK
                or box.y1 > canvas.y1 + SLACK):
            yield f"{text!r} lies outside the canvas"
    low, high = (np.array([getattr(box, end) for _, box in texts]).reshape(-1, 2) for end in ("min", "max"))
    both = np.minimum(high[:, None], high) - np.maximum(low[:, None], low) > SLACK  # width and height of what two boxes share
    for i, j in zip(*np.nonzero(np.triu(both.all(axis=-1), 1))):
        yield f"{texts[i][0]!r} lies over {texts[j][0]!r}"
    if figure.get_figwidth() > MOST_INCHES:
        yield f"{figure.get_figwidth():.1f} inches wide"
