"""A figure of each fit of fits.py: the points beside what the fit says of them."""

import numpy as np
from matplotlib import patches, ticker

import effects
import laws
import regression
import style
from cube import compact
from style import plt


def logarithmic(axes, *which):
    """Logarithmic axes with numbers at powers of ten, or at 1, 2 and 5 times those where the range is short."""
    for name in which:
        getattr(axes, f"set_{name}scale")("log")
        low, high = getattr(axes, f"get_{name}lim")()
        axis = getattr(axes, f"{name}axis")
        if high / low < 50:
            axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: compact(value)))
        else:
            axis.set_major_locator(ticker.LogLocator(numticks=5))
        axis.set_minor_formatter(ticker.NullFormatter())


def legend_of_widths(points):
    return [style.handle(style.series_of(i), f"{bits:g} bits") for i, bits in enumerate(sorted(set(points.bits)))]


# --- the token law ---


def draw_law(axes, part, fit, widths):
    """Points of one method moved to one size of model by the law, its lines, and the published law's."""
    size = float(np.exp(np.log(part.parameters).mean()))
    moved = (part.parameters / size) ** fit.coefficients.get("alpha", 0.0)
    tokens = np.geomspace(part.tokens.min(), part.tokens.max(), 50)
    for i, bits in enumerate(widths):
        series, rows = style.series_of(i), part.bits == bits
        if not rows.any():
            continue
        known = part.delta_deviation > 0
        spread = (laws.uncertainty(part) * moved).where(known)
        style.draw_points(axes, part.tokens[rows], *((v * moved)[rows] for v in (part.delta, part.delta_stderr)), spread[rows], series)
        axes.plot(tokens, laws.value(fit.coefficients, size, tokens, bits), color=series[0], zorder=3)
        axes.plot(tokens, laws.value(laws.PUBLISHED, size, tokens, bits), color=series[0], linestyle=":", linewidth=1, zorder=2)
    good = part.delta[part.delta > 0] * moved[part.delta > 0]
    axes.set_ylim(good.min() / 2, good.max() * 2)
    logarithmic(axes, "x", "y")
    axes.set_xlabel("Training tokens")
    return size


def token_law(found, points):
    """Added loss over tokens for each method and text, one line a bit-width."""
    fitted = {name: law for name, law in found["token law"].items() if not isinstance(law, str)}
    if not fitted:
        return None
    widths = sorted(set(points.bits))
    figure, panels = style.panel_grid(len(fitted), 3.4, 3.0)
    for axes, (name, law) in zip(panels, fitted.items()):
        part = points[[", ".join(n for n in pair if n) in (name, "") for pair in zip(points.quantizer, points.dataset)]]
        part = laws.positive(laws.known_size(part, []), [])
        size = draw_law(axes, part, law["logarithms"], widths)
        several = "" if part.parameters.nunique() == 1 else f"moved to {compact(float(f'{size:.2g}'))} parameters"
        style.title(axes, *name.split(", "), several)
        axes.set_ylabel("Added loss (nats a token)")
    style.finish(figure, legend_of_widths(points) + [
        plt.Line2D([], [], color=style.GREY, label="fit"),
        plt.Line2D([], [], color=style.GREY, linestyle=":", linewidth=1, label="arXiv 2411.17691 (GPTQ, Pythia)")])
    return figure


# --- tokens or learning rate ---


def partial(x, others, y, weights):
    """x and y without what the other variables explain of them."""
    return [v - others @ np.linalg.lstsq(*regression.scaled(weights, others, v), rcond=None)[0] for v in (x, y)]


def tokens_or_rate(found, points):
    """The partial effect of tokens and of the learning rate: the slope is the coefficient. One marker a training run."""
    name = "tokens and learning rate"
    fit = found["tokens or learning rate"][name]
    if isinstance(fit, str):
        return None
    use = effects.SPECIFICATIONS[name]
    values = effects.variables(points)
    kept = (points.relative.to_numpy(float) > 0) & np.isfinite([values[v] for v in use]).all(axis=0)
    part = points[kept]
    cell = effects.cells_of(part)
    x = np.column_stack([values[v][kept] for v in use])
    weights = effects.weights_of(part, np.column_stack([effects.constants_of(cell), x]))
    x, y = (regression.within(v, cell, weights) for v in (x, np.log(part.relative.to_numpy(float))))
    runs = list(dict.fromkeys(part.family))
    figure, panels = style.panel_grid(2, 3.8, 3.2)
    labels = {"ln tokens": "ln(tokens), rate held fixed", "ln rate": "ln(learning rate), tokens held fixed"}
    for i, (axes, variable) in enumerate(zip(panels, use)):
        across, up = partial(x[:, i], np.delete(x, i, axis=1), y, weights)
        for k, run in enumerate(runs):
            rows = (part.family == run).to_numpy()
            style.draw_points(axes, across[rows], up[rows], None, None, style.series_of(k), alpha=0.8)
        line = np.array([across.min(), across.max()])
        axes.plot(line, fit.coefficients[variable] * line, color=style.BLACK, zorder=5)
        low, high = next(iter(fit.intervals.values()))[variable]
        axes.fill_between(line, low * line, high * line, color=style.GREY, alpha=0.25, linewidth=0, zorder=1)
        style.title(axes, f"effect {fit.coefficients[variable]:.2f}", f"95 % {low:.2f} to {high:.2f}")
        axes.set_xlabel(labels[variable])
        axes.set_ylabel("ln(relative error), the same held fixed" if i == 0 else "")
    style.finish(figure, [style.handle(style.series_of(k), str(run)) for k, run in enumerate(runs)] + [
        plt.Line2D([], [], color=style.BLACK, label="fit"),
        patches.Patch(color=style.GREY, alpha=0.25, linewidth=0, label="95 % of the slope")])
    return figure


# --- predictions ---


def predictions(found, points):
    """Relative error against its prediction from the other runs, a panel a formula."""
    if isinstance(found["predictions"], str):
        return None
    part, unit = found["predictions"]["points"], found["predictions"]["left out at a time"]
    scores = {name: score for name, score in found["predictions"]["scores"].items() if score and score["n"]}
    widths = sorted(set(points.bits))
    figure, panels = style.panel_grid(len(scores), 3.1, 2.9)
    actual = part.relative.to_numpy(float)
    everything = np.concatenate([score["predicted"] for score in scores.values()] + [actual])
    bounds = [0.7 * np.nanmin(everything), 1.4 * np.nanmax(everything)]
    for axes, (name, score) in zip(panels, scores.items()):
        for i, bits in enumerate(widths):
            rows = (part.bits == bits).to_numpy() & np.isfinite(score["predicted"])
            style.draw_points(axes, 100 * score["predicted"][rows], 100 * actual[rows], None, None, style.series_of(i))
        axes.plot(100 * np.array(bounds), 100 * np.array(bounds), color=style.GREY, linestyle=":", zorder=1)
        axes.set(xlim=100 * np.array(bounds), ylim=100 * np.array(bounds))
        logarithmic(axes, "x", "y")
        style.title(axes, name, f"typical factor {np.exp(score['rms error of ln(relative error)']):.2f}")
        axes.set_xlabel("Predicted relative error (%)")
        axes.set_ylabel("Relative error (%)")
    style.finish(figure, legend_of_widths(points) + [
        plt.Line2D([], [], color=style.GREY, linestyle=":", label=f"equal (each {unit} predicted from the others)")])
    return figure


# --- the full-precision law ---


def full_precision(found, points):
    """Full-precision loss over tokens, one line a size of model."""
    fit = found["full-precision law"]
    if isinstance(fit, str):
        return None
    part = laws.full_precision_points(points)
    figure, panels = style.panel_grid(1, 5.0, 3.4)
    axes, sizes = panels[0], sorted(set(part.parameters))
    for i, size in enumerate(sizes):
        rows, series = part.parameters == size, style.series_of(i)
        style.draw_points(axes, part.tokens[rows], part.loss[rows], None, None, series)
        tokens = np.geomspace(part.tokens[rows].min(), part.tokens[rows].max(), 50)
        axes.plot(tokens, laws.full_precision_value(fit.coefficients, size, tokens), color=series[0])
        axes.plot(tokens, laws.full_precision_value(laws.PUBLISHED_FULL, size, tokens), color=series[0], linestyle=":", linewidth=1)
    logarithmic(axes, "x")
    axes.set_xlabel("Training tokens")
    axes.set_ylabel("Full-precision loss (nats a token)")
    style.finish(figure, [style.handle(style.series_of(i), f"{compact(float(f'{size:.3g}'))} parameters") for i, size in enumerate(sizes)] + [
        plt.Line2D([], [], color=style.GREY, label="fit"),
        plt.Line2D([], [], color=style.GREY, linestyle=":", linewidth=1, label="arXiv 2411.17691")])
    return figure


FIGURES = {"fit_token_law": token_law, "fit_tokens_or_rate": tokens_or_rate, "fit_predictions": predictions,
           "fit_full_precision": full_precision}
# Title, what is shown, and what the bars are.
CAPTIONS = {
    "fit_token_law": ("Token law", "Added loss over training tokens, one line a bit-width: the fit, and dotted the published law. Points of "
                      "other sizes of model are moved to one size by the fit.",
                      "one paired standard error of the added loss over the text's sequences; where the sweep has replicates, thin lines without "
                      "caps add the standard deviation over calibration text."),
    "fit_tokens_or_rate": ("Tokens or learning rate", "The partial effect of each on the logarithm of the relative error, with the other held "
                           "fixed; the slope is the coefficient, a marker and colour a training run. Points far from the line may be those "
                           "that are not told from zero, which weigh little.",
                           "none; the grey wedge is the 95 % interval of the slope."),
    "fit_predictions": ("Predictions of unseen runs", "Relative error against what each formula predicts when the run (of a single run, the checkpoint) "
                        "is left out of the fit. On the dotted line both are equal.", "none."),
    "fit_full_precision": ("Full-precision law", "Full-precision loss over training tokens, one line a size of model: the fit, and dotted the "
                           "published law.", "none."),
}


def save_all(found, points, folder):
    """Writes a figure for each fit that there is."""
    for name, draw in FIGURES.items():
        figure = draw(found, points)
        if figure is not None:
            style.save(figure, folder, name)
