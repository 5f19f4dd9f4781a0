"""Full-precision law."""

import numpy as np
from matplotlib.lines import Line2D

from qtraj.cube.trajectories import compact
from qtraj.figures import colours, fit_axes, style
from qtraj.figures.figure import figure_of_fits
from qtraj.laws import full_precision


@figure_of_fits(
    "Full-precision law", "Full-precision loss over training tokens, one line a size of model: the fit, and dotted the "
    "published law.", "none.")
def fit_full_precision(found, points, place):
    """Full-precision loss over tokens, one line a size of model."""
    fit = found["full-precision law"]
    if isinstance(fit, str):
        return None
    part = full_precision.full_precision_points(points)
    figure, panels = place.panels(1, 3.3, 2.4)
    axes, sizes = panels[0], {size: f"{compact(float(f'{size:.3g}'))} parameters" for size in sorted(set(part.parameters))}
    series_of = colours.of_names(sizes.values())
    for size, name in sizes.items():
        rows, series = part.parameters == size, series_of[name]
        style.draw_points(axes, part.tokens[rows], part.loss[rows], None, None, series)
        tokens = np.geomspace(part.tokens[rows].min(), part.tokens[rows].max(), 50)
        axes.plot(tokens, full_precision.full_precision_value(fit.coefficients, size, tokens), color=series[0])
        axes.plot(tokens, full_precision.full_precision_value(full_precision.PUBLISHED, size, tokens), color=series[0], linestyle=":", linewidth=1)
    fit_axes.logarithmic(axes, "x")
    axes.set_xlabel("Training tokens")
    axes.set_ylabel("Full-precision loss (nats)")
    place.finish([style.handle(series_of[name], name) for name in sizes.values()] + [
        Line2D([], [], color=style.GREY, label="fit"),
        Line2D([], [], color=style.GREY, linestyle=":", linewidth=1, label="arXiv 2411.17691")])
    return figure
