"""Relative error beside the curvature of the full-precision loss: against sharpness (the largest eigenvalue of the
Hessian) and against the trace of the Hessian with its standard error. A thin line joins the checkpoints of a run in
training order, labels are steps, and the text beside each panel gives Spearman's rank correlation over its stored
checkpoints with a 95 % interval; averages are points of their own, which it leaves out."""

import numpy as np

import style
from cube import checkpoint_labels, families, widths, with_replicates

QUANTITIES = (("sharpness", "sharpness_residual", "Sharpness (largest eigenvalue)"),
              ("trace", "trace_stderr", "Trace of the Hessian"))


def measured(cube):
    """Whether the cube has the curvature values that this figure draws."""
    return "trace" in cube and any(np.isfinite(cube[name]).any() for name, _, _ in QUANTITIES)


def ranks(x):
    """Ranks from 1, equal values the mean of theirs."""
    order = np.argsort(x, kind="stable")
    out = np.empty(len(x))
    out[order] = np.arange(1, len(x) + 1)
    for value in np.unique(x):
        out[x == value] = out[x == value].mean()
    return out


def spearman(x, y):
    """Rank correlation, and its 95 % interval by Fisher's transformation with the variance of Bonett and Wright
    (Psychometrika 65, 2000); None for it below five points or at ±1, None for both where a side is constant."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = ranks(x[known]), ranks(y[known])
    n = len(x)
    if n < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None, None
    rho = float(np.corrcoef(x, y)[0, 1])
    if n < 5 or abs(rho) > 1 - 1e-12:
        return rho, None
    half = 1.96 * np.sqrt((1 + rho**2 / 2) / (n - 3))
    return rho, tuple(np.tanh(np.arctanh(rho) + side * half) for side in (-1, 1))


def correlation_text(name, x, y):
    rho, interval = spearman(x, y)
    n = int((np.isfinite(x) & np.isfinite(y)).sum())
    if rho is None:
        return f"{name}\n n = {n}"
    if interval is None:
        return f"{name}\n ρ = {rho:.2f}, n = {n}"
    return f"{name}\n ρ = {rho:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


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
        style.draw_points(axes, across, up, errors, spread, series, style.marker_style(colour, line.number, hollow), xerr=sideways,
                          elinewidth=0.8)


def write_beside(axes, text, place, colour):
    """Two lines at the panel's right edge from height `place` (share of the panel's) down; returns the place below them."""
    axes.text(1.03, place, text, transform=axes.transAxes, fontsize=7, va="top", color=colour)
    return place - 0.155


def stored(lines):
    return [line for line in lines if not line.average]


def draw_panel(axes, cube, lines, part, quantity):
    name, error, _ = quantity
    converged = cube.sharpness_converged if name == "sharpness" else 1 + 0 * cube[name]
    unsure = sum(int((line.own(converged) == 0).sum()) for line in lines)
    all_of_them = sum(len(line.places) for line in lines)
    place = 1.0
    if unsure:
        place = write_beside(axes, f"{unsure} of {all_of_them} not converged:\nρ is that of estimates", place, style.GREY)
    for i, quantizer in enumerate(cube.quantizer.values):
        one = part.sel(quantizer=quantizer)
        spread = with_replicates(one, "loss_relative", "loss_relative_stderr")
        y = (100 * one.loss_relative, 100 * one.loss_relative_stderr, None if spread is None else 100 * spread)
        for line in lines:
            draw_points(axes, line, (cube[name], cube[error]), y, style.series_of(i), converged)
        text = correlation_text(quantizer, *(np.concatenate([line.own(v) for line in stored(lines)]) for v in (cube[name], y[0])))
        place = write_beside(axes, text, place, style.series_of(i)[0])


def label_panel(axes, cube, lines, part, quantity):
    """Steps at the points of the method that lies highest, where there is space."""
    best = max(cube.quantizer.values, key=lambda q: np.nan_to_num(part.sel(quantizer=q).loss_relative.max().item(), nan=-1))

    def points_of(quantizer, lines):
        y = 100 * part.sel(quantizer=quantizer).loss_relative
        return [p for line in lines for p in zip(line.own(cube[quantity[0]]), line.own(y))]

    own = stored(lines)
    averages = [line for line in lines if line.average]
    points = points_of(best, own)
    others = [p for quantizer in cube.quantizer.values if quantizer != best for p in points_of(quantizer, lines)]
    labels = [label for line in own for label in checkpoint_labels(cube, line)]
    style.label_points(axes, points, labels, first=(0, len(own[0].places) - 1, len(points) - 1),
                       avoid=others + points_of(best, averages))


def draw(cube, bits):
    if not measured(cube):
        return None
    bits = widths(cube, bits)
    groups = families(cube, averages=True)
    there = [q for q in QUANTITIES if np.isfinite(cube[q[0]]).any()]
    rows = [(lines, dataset, width) for lines in groups for dataset in cube.dataset.values for width in bits]
    figure, panels = style.new_figure(len(rows), len(there), width=4.2, height=2.9)
    for (lines, dataset, width), row in zip(rows, panels):
        part = cube.sel(dataset=dataset, bits=width)
        for axes, quantity in zip(row, there):
            draw_panel(axes, cube, lines, part, quantity)
            style.title(axes, lines[0].model, f"{width} bits", dataset)
            axes.set_xlabel(quantity[2])
        row[0].set_ylabel("Relative error CE(q)/CE − 1 (%)")
    everything = [line for lines in groups for line in lines]
    handles = style.quantizer_handles(cube) + style.context_handles(everything)
    if "sharpness" in (q[0] for q in there) and (cube.sharpness_converged == 0).any():
        handles.append(style.plt.Line2D([], [], color=style.GREY, linestyle="none", marker="o",
                                        label="sharpness not converged", **style.marker_style(style.GREY, hollow=True)))
    style.finish(figure, handles)
    for (lines, dataset, width), row in zip(rows, panels):
        for axes, quantity in zip(row, there):
            label_panel(axes, cube, lines, cube.sel(dataset=dataset, bits=width), quantity)
    return figure
