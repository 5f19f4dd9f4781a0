"""Predictions of unseen runs."""

import numpy as np
from matplotlib.lines import Line2D

from qtraj.figures import colours, fit_axes, style
from qtraj.figures.figure import figure_of_fits


@figure_of_fits(
    "Predictions of unseen runs", "Relative error against what each formula predicts when the run (of a single run, the checkpoint) "
    "is left out of the fit. On the dotted line both are equal.", "none.")
def fit_predictions(found, points, place):
    """Relative error against its prediction from the other runs, a panel a formula."""
    if isinstance(found["predictions"], str):
        return None
    part, unit = found["predictions"]["points"], found["predictions"]["left out at a time"]
    scores = {name: score for name, score in found["predictions"]["scores"].items() if score and score["n"]}
    widths = sorted(set(points.bits))
    figure, panels = place.panels(len(scores), 2.2, 2.2)
    actual = part.relative.to_numpy(float)
    everything = np.concatenate([score["predicted"] for score in scores.values()] + [actual])
    bounds = [0.7 * np.nanmin(everything), 1.4 * np.nanmax(everything)]
    for axes, (name, score) in zip(panels, scores.items()):
        for bits in widths:
            rows = (part.bits == bits).to_numpy() & np.isfinite(score["predicted"])
            style.draw_points(axes, 100 * score["predicted"][rows], 100 * actual[rows], None, None, colours.of_bits(bits))
        axes.plot(100 * np.array(bounds), 100 * np.array(bounds), color=style.GREY, linestyle=":", zorder=1)
        axes.set(xlim=100 * np.array(bounds), ylim=100 * np.array(bounds))
        fit_axes.logarithmic(axes, "x", "y")
        place.title(axes, name, f"typical factor {np.exp(score['rms error of ln(relative error)']):.2f}")
        axes.set_xlabel("Predicted relative error (%)")
        axes.set_ylabel("Relative error (%)")
    place.finish(fit_axes.legend_of_widths(points) + [
        Line2D([], [], color=style.GREY, linestyle=":", label=f"equal (each {unit} predicted from the others)")])
    return figure
