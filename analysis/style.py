"""Style of the figures: colours that colour-blind readers can distinguish (Okabe and Ito), markers and line styles that
work without colour, and the learning rate as a dotted line in the background."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from cube import progress  # noqa: E402

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
SERIES = [(VERMILION, "s"), (BLUE, "o"), (GREEN, "^"), (PURPLE, "D"), (ORANGE, "v"), (SKY, "P"), (BLACK, "X")]
GREY = "#767676"

plt.rcParams.update({
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
})


def new_figure(rows, columns, height=2.6, sharex=True, sharey=False):
    """A grid of rows × columns panels, each `height` inches high."""
    return plt.subplots(rows, columns, figsize=(1.2 + 3.1 * columns, 0.9 + height * rows), sharex=sharex, sharey=sharey,
                        squeeze=False)


def progress_scale(cube, lines):
    """Unit and label of the axis of training progress."""
    _, label = progress(cube)
    most = max(line.at[-1] for line in lines)
    for unit, name in ((1e12, "trillions"), (1e9, "billions"), (1e6, "millions"), (1e3, "thousands")):
        if most >= unit and label == "Training tokens":
            return unit, f"{label} ({name})"
    return 1.0, label


def draw_curve(axes, line, unit, values, errors, series):
    """One trajectory with its error bars. A branch is dashed with hollow markers and starts, without a marker, at its
    fork point on the parent."""
    colour, marker = SERIES[series % len(SERIES)] if series >= 0 else (BLACK, "*")
    branch = line.parent is not None
    x, y = line.curve(values)
    axes.plot(x / unit, y, color=colour, linestyle="--" if branch else "-", zorder=3)
    _, bars = line.curve(errors)
    known = np.isfinite(y)
    known[0] &= not branch
    x, y, bars = (a[known] for a in (x, y, bars))
    axes.errorbar(x / unit, y, yerr=bars, color=colour, marker=marker, linestyle="none", capsize=2, elinewidth=1,
                  markerfacecolor="white" if branch else colour, zorder=4)


def has_learning_rate(cube):
    return bool((cube.learning_rate.values > 0).any())


def draw_learning_rate(axes, lines, unit, cube, named):
    """Dotted, in the background, on a separate axis at the right; named: this panel shows the axis label."""
    if not has_learning_rate(cube):
        return
    most = np.nanmax(cube.learning_rate.values)
    power = int(np.floor(np.log10(most)))
    right = axes.twinx()
    for line in lines:
        x, y = line.curve(cube.learning_rate)
        right.plot(x / unit, y / 10.0**power, color=GREY, linestyle=":", linewidth=1.3)
    right.set_ylim(0, 1.3 * most / 10.0**power)
    right.tick_params(colors=GREY, labelright=named, right=named)
    right.spines["right"].set(color=GREY, visible=named)
    if named:
        right.set_ylabel(f"Learning rate ($10^{{{power}}}$)", color=GREY)
    axes.set_zorder(right.get_zorder() + 1)
    axes.patch.set_visible(False)


def handle(series, label):
    colour, marker = SERIES[series % len(SERIES)] if series >= 0 else (BLACK, "*")
    return plt.Line2D([], [], color=colour, marker=marker, label=label)


def legend(figure, handles, lines, learning_rate):
    """Below the panels: the series, the style of a branch, and the learning rate."""
    if any(line.parent for line in lines):
        handles.append(plt.Line2D([], [], color=GREY, linestyle="--", marker="o", markerfacecolor="white",
                                  label="branch"))
    if learning_rate:
        handles.append(plt.Line2D([], [], color=GREY, linestyle=":", label="learning rate"))
    figure.tight_layout(rect=(0, 0.32 / figure.get_figheight(), 1, 1))
    figure.legend(handles=handles, loc="lower center", ncol=len(handles))


def save(figure, folder, name):
    for ending in ("png", "pdf"):
        path = folder / f"{name}.{ending}"
        figure.savefig(path, metadata={"CreationDate": None} if ending == "pdf" else {"Software": None})
        print(path)
    plt.close(figure)
