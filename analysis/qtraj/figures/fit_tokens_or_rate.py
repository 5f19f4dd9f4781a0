"""Tokens or learning rate."""

import numpy as np
from matplotlib import patches
from matplotlib.lines import Line2D

from qtraj.figures import colours, style
from qtraj.figures.figure import figure_of_fits
from qtraj.laws import effects, regression


def partial(x, others, y, weights):
    """x and y without what the other variables explain of them."""
    return [v - others @ np.linalg.lstsq(*regression.scaled(weights, others, v), rcond=None)[0] for v in (x, y)]


@figure_of_fits(
    "Tokens or learning rate", "The partial effect of each on the logarithm of the relative error, with the other held "
    "fixed; the slope is the coefficient, a marker and colour a training run.",
    "none; the grey wedge is the 95 % interval of the slope.")
def fit_tokens_or_rate(found, points, place):
    """The partial effect of tokens and of the learning rate: the slope is the coefficient. One marker a training run."""
    name = "tokens and learning rate"
    fit = found["tokens or learning rate"][name]
    if isinstance(fit, str):
        return None
    use = effects.SPECIFICATIONS[name]
    kept, values = effects.usable(points, use, [])
    part, x = points[kept], values[kept]
    cell = effects.cells_of(part)
    weights = effects.weights_of(part, np.column_stack([effects.constants_of(cell), x]))
    x, y = (regression.within(v, cell, weights) for v in (x, np.log(part.relative.to_numpy(float))))
    runs = colours.of_names(part.family)
    figure, panels = place.panels(2, 3.3, 2.2)
    labels = {"ln tokens": "ln(tokens), rate held fixed", "ln rate": "ln(learning rate), tokens held fixed"}
    for i, (axes, variable) in enumerate(zip(panels, use)):
        across, up = partial(x[:, i], np.delete(x, i, axis=1), y, weights)
        for run, series in runs.items():
            rows = (part.family == run).to_numpy()
            style.draw_points(axes, across[rows], up[rows], None, None, series, alpha=0.8)
        line = np.array([across.min(), across.max()])
        axes.plot(line, fit.coefficients[variable] * line, color=style.BLACK, zorder=5)
        low, high = next(iter(fit.intervals.values()))[variable]
        axes.fill_between(line, low * line, high * line, color=style.GREY, alpha=0.25, linewidth=0, zorder=1)
        place.title(axes, f"effect {fit.coefficients[variable]:.2f}", f"95 % {low:.2f} to {high:.2f}")
        axes.set_xlabel(labels[variable])
        axes.set_ylabel("ln(relative error), the same held fixed")
    place.finish([style.handle(series, run) for run, series in runs.items()] + [
        Line2D([], [], color=style.BLACK, label="fit"),
        patches.Patch(color=style.GREY, alpha=0.25, linewidth=0, label="95 % of the slope")])
    return figure
