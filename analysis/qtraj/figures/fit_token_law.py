"""Token law."""

import numpy as np
from matplotlib.lines import Line2D

from qtraj.cube.trajectories import compact
from qtraj.figures import colours, fit_axes, style
from qtraj.figures.figure import REPLICATED, figure_of_fits
from qtraj.laws import added_loss
from qtraj.laws.fit import uncertainty


def draw_law(axes, part, fit, widths):
    """Points of one method moved to one size of model by the law, its lines, and the published law's."""
    size = float(np.exp(np.log(part.parameters).mean()))
    moved = (part.parameters / size) ** fit.coefficients.get("alpha", 0.0)
    tokens = np.geomspace(part.tokens.min(), part.tokens.max(), 50)
    for bits in widths:
        series, rows = colours.of_bits(bits), part.bits == bits
        if not rows.any():
            continue
        known = part.delta_deviation > 0
        spread = (uncertainty(part) * moved).where(known)
        style.draw_points(axes, part.tokens[rows], *((v * moved)[rows] for v in (part.delta, part.delta_stderr)), spread[rows], series)
        axes.plot(tokens, added_loss.value(fit.coefficients, size, tokens, bits), color=series[0], zorder=3)
        axes.plot(tokens, added_loss.value(added_loss.PUBLISHED, size, tokens, bits), color=series[0], linestyle=":", linewidth=1, zorder=2)
    good = part.delta[part.delta > 0] * moved[part.delta > 0]
    axes.set_ylim(good.min() / 2, good.max() * 2)
    fit_axes.logarithmic(axes, "x", "y")
    axes.set_xlabel("Training tokens")
    return size


@figure_of_fits(
    "Token law", "Added loss over training tokens, one line a bit-width: the fit, and dotted the published law. Points of "
    "other sizes of model are moved to one size by the fit; points that are not positive have no place on the axis.",
    f"one paired standard error of the added loss over the text's sequences{REPLICATED}.")
def fit_token_law(found, points, place):
    """Added loss over tokens for each method and text, one line a bit-width."""
    fitted = {name: law for name, law in found["token law"].items() if not isinstance(law, str)}
    if not fitted:
        return None
    widths = sorted(set(points.bits))
    figure, panels = place.panels(len(fitted), 3.3, 2.2)
    for axes, (name, law) in zip(panels, fitted.items()):
        part = points[[", ".join(n for n in pair if n) in (name, "") for pair in zip(points.quantizer, points.dataset)]]
        part = added_loss.known_size(part[part.delta > 0], [])
        size = draw_law(axes, part, law["logarithms"], widths)
        several = "" if part.parameters.nunique() == 1 else f"moved to {compact(float(f'{size:.2g}'))} parameters"
        place.title(axes, *name.split(", "), several)
        axes.set_ylabel("Added loss (nats)")
    place.finish(fit_axes.legend_of_widths(points) + [
        Line2D([], [], color=style.GREY, label="fit"),
        Line2D([], [], color=style.GREY, linestyle=":", linewidth=1, label="arXiv 2411.17691 (GPTQ, Pythia)")])
    return figure
