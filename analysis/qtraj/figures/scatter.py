"""One quantity against another, checkpoint by checkpoint, with rank correlations beside the panel."""

import numpy as np

from qtraj.figures import style
from qtraj.laws.correlation import spearman


def number(value):
    return f"{value:.2f}".replace("-", "−")


LONG = 12  # letters of a name that leave the panel too little room beside them


def correlation_text(name, x, y):
    rho, interval = spearman(x, y)
    n = int((np.isfinite(x) & np.isfinite(y)).sum())
    if rho is None:
        return f"{name}\n n = {n}"
    if interval is None:
        return f"{name}\n ρ = {number(rho)}, n = {n}"
    return f"{name}\n ρ = {number(rho)} ({number(interval[0])} to {number(interval[1])})"


def draw_points(axes, line, x, y, series, converged):
    """x: values and errors; y: values and both parts of their errors (the last None: there is none). Points whose sharpness
    has not converged are hollow."""
    colour = series[0]
    axes.plot(line.own(x[0]), line.own(y[0]), color=colour, linestyle=style.dash(line), linewidth=0.6, alpha=0.45,
              zorder=2)
    known = np.isfinite(line.own(x[0])) & np.isfinite(line.own(y[0]))
    done = line.own(converged) != 0
    for these, hollow in ((known & done, False), (known & ~done, True)):
        if not these.any():
            continue
        across, sideways, up, errors, spread = [None if v is None else line.own(v)[these] for v in (*x, *y)]
        style.draw_points(axes, across, up, errors, spread, series, style.marker_style(colour, line, hollow), xerr=sideways,
                          elinewidth=0.8)


def write_beside(axes, text, height, colour):
    """Text at the panel's right edge, `height` points below its top; returns the height below it."""
    axes.annotate(text, (1, 1), xycoords="axes fraction", xytext=(4, -height), textcoords="offset points", fontsize=7, va="top", color=colour)
    return height + 8.7 * len(text.split("\n")) + 2


def write_correlations(axes, lines, found, height=0.0):
    """Rank correlations over the stored checkpoints at the panel's right edge, from `height` points below its top: of each method that has
    points, without intervals where the panel is too low for them, and without names, which the legend has in these colours, where they are
    long. found: name, values of both axes and colour of each method."""
    texts = []
    for name, x, y, colour in found:
        x, y = (np.concatenate([line.own(v) for line in stored(lines)]) for v in (x, y))
        if (np.isfinite(x) & np.isfinite(y)).any():
            texts.append((correlation_text(name, x, y), colour))
    room = 72 * axes.get_window_extent().height / axes.figure.dpi
    if height + 19.4 * len(texts) > room + 10:
        texts = [(text.split(" (")[0].replace("\n", ""), colour) for text, colour in texts]
    if max((len(name) for name, *_ in found), default=0) > LONG:
        texts = [(text[text.index(" ρ" if " ρ" in text else " n") + 1:], colour) for text, colour in texts]
    for text, colour in texts:
        height = write_beside(axes, text, height, colour)


def stored(lines):
    return [line for line in lines if not line.average]
