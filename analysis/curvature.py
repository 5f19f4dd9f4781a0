"""Relative error against the curvature of the full-precision loss, for each run: against sharpness (the largest
eigenvalue of the Hessian) and against the trace of the Hessian with its standard error. Lines join checkpoints in
training order; a ring marks the last one of a run."""

import numpy as np
import style
from cube import trajectories, widths

QUANTITIES = (("sharpness", "sharpness_residual", "Sharpness (largest eigenvalue)"),
              ("trace", "trace_stderr", "Trace of the Hessian"))


def measured(cube):
    """Whether the cube has the curvature values that this figure draws."""
    return "trace" in cube and any(np.isfinite(cube[name]).any() for name, _, _ in QUANTITIES)


def draw_path(axes, line, x, dx, y, dy, series):
    colour, marker = style.SERIES[series % len(style.SERIES)]
    branch = line.parent is not None
    x, dx, y, dy = (line.curve(values)[1] for values in (x, dx, y, dy))
    axes.plot(x, y, color=colour, linestyle="--" if branch else "-", linewidth=1, alpha=0.6, zorder=3)
    axes.plot(x[-1], y[-1], marker="o", markersize=9, markerfacecolor="none", markeredgecolor=colour, zorder=5)
    known = np.isfinite(x) & np.isfinite(y)
    known[0] &= not branch
    x, dx, y, dy = (values[known] for values in (x, dx, y, dy))
    axes.errorbar(x, y, xerr=dx, yerr=dy, color=colour, marker=marker, linestyle="none", capsize=2, elinewidth=1,
                  markerfacecolor="white" if branch else colour, zorder=4)


def draw(cube, bits):
    lines = trajectories(cube)
    bits = widths(cube, bits)
    datasets = cube.dataset.values
    there = [q for q in QUANTITIES if np.isfinite(cube[q[0]]).any()]
    figure, panels = style.new_figure(len(datasets) * len(bits), len(there), sharex="col", sharey="row")
    rows = [(dataset, width) for dataset in datasets for width in bits]
    for row, (dataset, width) in enumerate(rows):
        part = cube.sel(dataset=dataset, bits=width)
        for column, (name, error, label) in enumerate(there):
            axes = panels[row][column]
            for series, quantizer in enumerate(cube.quantizer.values):
                one = part.sel(quantizer=quantizer)
                for line in lines:
                    draw_path(axes, line, cube[name], cube[error], 100 * one.loss_relative,
                              100 * one.loss_relative_stderr, series)
            axes.spines["right"].set_visible(False)
            axes.set_title(f"{width} bits, {dataset}")
            if row == len(rows) - 1:
                axes.set_xlabel(label)
        panels[row][0].set_ylabel("Relative error CE(q)/CE − 1 (%)")
    handles = [style.handle(i, str(name)) for i, name in enumerate(cube.quantizer.values)]
    handles.append(style.plt.Line2D([], [], color=style.GREY, linestyle="none", marker="o", markersize=9,
                                    markerfacecolor="none", label="end of a run"))
    style.legend(figure, handles, lines, learning_rate=False)
    return figure
