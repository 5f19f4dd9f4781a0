"""How the figures look: colours that colour-blind readers tell apart (Okabe and Ito), markers and line styles that
tell the same without colour, and the learning rate dotted behind."""

import pathlib

import matplotlib
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox

from qtraj.cube.trajectories import LATE, compact, progress
from qtraj.figures import colours
from qtraj.figures.colours import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, YELLOW

GREY = "#767676"
FULL_PRECISION = (BLACK, "*")
OF_TRAINING = {"training_loss": ((GREY, "."), "in training"), "validation_loss": ((SKY, "P"), "held out in training")}  # columns of `qtraj train`

LOOK = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.labelpad": 2,
    "axes.titlepad": 4,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "qtraj",
    "pdf.fonttype": 42,
    "figure.dpi": 100,
    "savefig.dpi": 200,
}


def progress_scale(cube, lines):
    """Unit and name for the axis of training."""
    _, label = progress(cube)
    greatest = max(line.at[-1] for line in lines)
    for unit, name in ((1e12, "trillions"), (1e9, "billions"), (1e6, "millions"), (1e3, "thousands")):
        if greatest >= unit and label == "Training tokens":
            return unit, f"{label} ({name})"
    return 1.0, label


TINTS = (GREEN, ORANGE, SKY, PURPLE, YELLOW, BLUE, VERMILION)  # of phases


def phases_of(lines):
    return list(dict.fromkeys(phase for line in lines if line.phase is not None for phase in line.phase if phase))


def late_from(lines):
    """Where checkpoints without tokens begin on the axis of training; None: there are none."""
    late = [line for line in lines if line.late]
    return min(line.at[-line.late] for line in late) * (1 - LATE / 2 / (1 + LATE)) if late else None


def shade_phases(axes, line, unit):
    """Each phase of a run from halfway after the checkpoint before it."""
    names, at = phases_of([line]), line.at[:len(line.at) - line.late]
    between = np.concatenate([at[:1], (at[1:] + at[:-1]) / 2, at[-1:]]) / unit
    for phase, low, high in zip(line.phase, between, between[1:]):
        if phase:
            axes.axvspan(low, high, color=TINTS[names.index(phase) % len(TINTS)], alpha=0.15, linewidth=0, zorder=0)


def name_progress(axes, label, lines, unit, cube):
    """The axis of training: its name, short whole numbers where it counts steps or checkpoints, and a grey ground, without numbers, under
    checkpoints without tokens. cube.attrs["phases"]: the phases of the first line are shaded."""
    axes.set_xlabel(label)
    if not label.startswith("Training tokens"):
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 1.5, 2, 3, 5, 10], min_n_ticks=1))
        axes.xaxis.set_major_formatter(lambda value, _: compact(value))
    end = late_from(lines)
    if end is not None:
        axes.axvspan(end / unit, max(line.at[-1] for line in lines) * (1 + LATE / 2) / unit, color=GREY, alpha=0.15, linewidth=0, zorder=0)
        axes.xaxis.set_major_formatter(lambda value, _: "" if value > end / unit else compact(value))
    if cube.attrs.get("phases") and lines[0].phase is not None:
        shade_phases(axes, lines[0], unit)


# Of branches and averages 1, 2, ...: lines, and which half of their markers is filled.
DASHES = ["--", "-.", (0, (5, 1, 1, 1, 1, 1))]
FILLS = ["left", "right", "top", "bottom"]
OF_BRANCHES = ["full"] + FILLS


def dash(line):
    return DASHES[(line.number - 1) % len(DASHES)] if line.number else "-"


def marker_style(colour, line=None, hollow=False):
    """line: a Trajectory. Markers of averages are half filled, those of branches have a black edge (black ones a grey one), hollow
    ones are values that have not converged."""
    if hollow:
        return {"markerfacecolor": "white", "markeredgecolor": colour}
    if line is None or not line.number:
        return {"markerfacecolor": colour, "markeredgecolor": colour}
    fills, edge = (FILLS, colour) if line.average else (OF_BRANCHES, GREY if colour == BLACK else BLACK)
    return {"fillstyle": fills[(line.number - 1) % len(fills)], "markerfacecolor": colour, "markerfacecoloralt": "white", "markeredgecolor": edge,
            "markeredgewidth": 1.0 if edge == colour else 0.8}


def draw_points(axes, x, y, errors, spread, series, look=None, **options):
    """Markers with both parts of their error bars: `errors` over the text, with caps, and around them `spread`, which has the
    deviation over replicates too (files.with_replicates), thin and without caps. Either may be None or NaN: there is none. look:
    a marker_style other than the filled one."""
    colour, marker = series
    options = {"linestyle": "none", "capsize": 1.5, "elinewidth": 0.8, "zorder": 4} | options
    axes.errorbar(x, y, yerr=errors, color=colour, marker=marker, **options, **(look or marker_style(colour)))
    if spread is not None and np.isfinite(spread).any():
        axes.errorbar(x, y, yerr=spread, color=colour, linestyle="none", capsize=0, elinewidth=0.6, zorder=3)


def draw_curve(axes, line, unit, values, errors, series, spread=None):
    """One trajectory with both parts of its error bars (None: there is none). A branch is dashed, and it starts without a
    marker on the run that it left."""
    colour = series[0]
    x, y = line.curve(values)
    axes.plot(x / unit, y, color=colour, linestyle=dash(line), zorder=3)
    known = np.isfinite(y)
    known[0] &= line.fork < 0
    bars = [None if part is None else line.curve(part)[1][known] for part in (errors, spread)]
    draw_points(axes, x[known] / unit, y[known], *bars, series, marker_style(colour, line))
    soup = [i for i in range(len(line.at)) if line.phase is not None and line.phase[i] == "soup"]
    if soup:
        axes.plot(line.at[soup] / unit, line.own(values)[soup], "*", markersize=9, markeredgecolor=BLACK, markeredgewidth=0.5, color=colour, zorder=5)


FEW = (1, 2, 5)  # numbers of each decade where an axis has few decades


def number_plainly(axes, locator):
    """Plain numbers on a logarithmic axis of y, where the locator says."""
    axes.yaxis.set_major_locator(locator)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", "\N{MINUS SIGN}")))
    axes.yaxis.set_minor_formatter(NullFormatter())


def signed_log(axes, values, errors):
    """A logarithmic axis of y where the values need one: one that is linear around zero if some are negative or not told
    from zero by twice their errors, and linear where that would leave nothing beyond."""
    values, errors = np.asarray(values, float), np.nan_to_num(np.asarray(errors, float))
    known = np.isfinite(values) & (values != 0)
    size = np.abs(values[known])
    if size.size == 0 or size.max() < 20 * size.min():
        return
    unsure = known & (np.abs(values) < 2 * errors)
    if not unsure.any() and (values[known] > 0).all():
        axes.set_yscale("log")
        number_plainly(axes, LogLocator(subs=FEW if size.max() < 200 * size.min() else (1,)))
        return
    reach = errors[unsure].max() if unsure.any() else size.min()
    around = 10.0 ** np.ceil(np.log10(reach))
    if around < size.max():
        axes.set_yscale("symlog", linthresh=around, linscale=0.7)
        axes.axhline(0, color=GREY, linewidth=0.6, zorder=1)
        decades = sum(np.log10(max(1, side.max(initial=0) / around)) for side in (values[known], -values[known]))
        few = decades < 1
        ticks = [digit * power for power in 10.0 ** np.arange(np.log10(around), np.log10(size.max()) + 1) for digit in (FEW if few else (1,))]
        number_plainly(axes, FixedLocator([sign * value for sign in (-1, 1) for value in [around / 2] * few + ticks] + [0]))


def has_learning_rate(cube):
    return bool((cube.learning_rate.values > 0).any())


def draw_learning_rate(place, axes, lines, unit, cube):
    """Dotted on an axis of its own at the right, behind everything."""
    lines = [line for line in lines if not line.average]  # averages have the rates of their last members
    draw_rates(place, axes, [line.curve(cube.learning_rate) for line in lines], unit)


def draw_rates(place, axes, curves, unit):
    """The same of pairs of progress and rates."""
    rates = np.concatenate([y for _, y in curves])
    if not (rates > 0).any():
        return
    right = axes.twinx()
    for x, y in curves:
        right.plot(x / unit, y, color=GREY, linestyle=":", linewidth=1)
    right.set_ylim(0, 1.3 * np.nanmax(rates))
    right.tick_params(colors=GREY, labelsize=LOOK["ytick.labelsize"])
    right.spines["right"].set(color=GREY, visible=True)
    right.spines["left"].set_visible(False)
    place.rate(axes, right)
    axes.set_zorder(right.get_zorder() + 1)
    axes.patch.set_visible(False)


def scale_rates(rights):
    """One scale for the axes of learning rates of panels side by side, of which the last alone has numbers."""
    top = max(right.get_ylim()[1] for right in rights)
    power = int(np.floor(np.log10(top / 1.3)))
    for right in rights:
        right.set_ylim(0, top)
        right.yaxis.set_major_formatter(lambda value, _: f"{value / 10.0**power:g}")
        right.set_ylabel(f"Learning rate ($10^{{{power}}}$)", color=GREY)


def plain(text):
    """A name as a figure shows it: $ begins no formula."""
    return str(text).replace("$", r"\$")


def handle(series, label):
    colour, marker = series
    return Line2D([], [], color=colour, marker=marker, label=plain(label))


def quantizer_handles(cube, bits, of="loss_relative"):
    """Entries of the legend for the methods that have numbers at some of these bit-widths. of: the variable that is drawn."""
    series, known = colours.of_quantizers(cube), np.isfinite(cube[of].sel(bits=list(bits)))
    return [handle(series[str(name)], str(name)) for name in cube.quantizer.values if known.sel(quantizer=name).any()]


def named(line):
    return f"average {line.average} of {line.model}" if line.average else f"branch {line.model}"


def context_handles(lines, cube=None):
    """What each branch and each series of averages look like, and of figures over training (of that cube) stars, grounds and the
    learning rate, where there are any."""
    handles = []
    for number, average in sorted({(line.number, bool(line.average)) for line in lines if line.number}):
        alike = [line for line in lines if (line.number, bool(line.average)) == (number, average)]
        handles.append(Line2D([], [], color=GREY, linestyle=dash(alike[0]), marker="o",
                                  label=plain(', '.join(named(line) for line in alike)),
                                  **marker_style(GREY, alike[0])))
    if cube is None:
        return handles
    if "soup" in phases_of(lines):
        handles.append(Line2D([], [], color=GREY, linestyle="none", marker="*", markersize=9, markeredgecolor=BLACK, markeredgewidth=0.5, label="published soup"))
    late = list(dict.fromkeys(name for line in lines if line.late for name in line.own(cube.checkpoint_name)[-line.late:]))
    if late:
        handles.append(Patch(color=GREY, alpha=0.15, linewidth=0, label=plain(f"without tokens, in order: {', '.join(late)}")))
    if cube.attrs.get("phases"):
        handles += [Patch(color=TINTS[i % len(TINTS)], alpha=0.15, linewidth=0, label=plain(phase)) for i, phase in enumerate(phases_of(lines[:1]))
                    if phase in lines[0].phase[:len(lines[0].at) - lines[0].late]]
    if has_learning_rate(cube):
        handles.append(Line2D([], [], color=GREY, linestyle=":", label="learning rate"))
    return handles


def width_of(figure, text, size):
    """Pixels that a line of text takes."""
    artist = figure.text(0, 0, text, fontsize=size)
    width = artist.get_window_extent(figure.canvas.get_renderer()).width
    artist.remove()
    return width


def wrap(figure, parts, size, room):
    """The parts joined by commas, in lines of at most `room` pixels. A part that is longer is broken, behind a space, a
    hyphen or an underscore if there is one."""
    lines = [""]
    for i, part in enumerate(parts):
        part += "," if i + 1 < len(parts) else ""
        joined = f"{lines[-1]} {part}".strip()
        if lines[-1] and width_of(figure, joined, size) > room:
            lines.append(part)
        else:
            lines[-1] = joined
        while width_of(figure, lines[-1], size) > room and len(lines[-1]) > 8:
            text = lines[-1]
            fits = max(8, int(len(text) * room / width_of(figure, text, size)) - 1)
            at = max(text.rfind(sign, 4, fits) for sign in " -_") + 1 or fits
            lines[-1:] = [text[:at].rstrip(), text[at:]]
    return "\n".join(lines)


def title(axes, *parts):
    """A panel's title, wrapped to the panel's width. Where it stands is searched for only if an axis has a factor above it."""
    figure = axes.figure
    room = axes.get_window_extent().width
    at = None if any(one.yaxis.get_offset_text().get_text() for one in figure.axes) else 1.0
    axes.set_title(wrap(figure, [plain(part) for part in parts if part], matplotlib.rcParams["axes.titlesize"], room), y=at)


# Where a label may stand beside its point: offset in points, and how it is aligned there.
PLACES = [((6, 4), "left", "bottom"), ((6, -4), "left", "top"), ((-6, 4), "right", "bottom"), ((-6, -4), "right", "top"),
          ((0, 7), "center", "bottom"), ((0, -7), "center", "top"), ((8, 0), "left", "center"), ((-8, 0), "right", "center")]


def bars_of(axes):
    """The boxes in pixels that error bars take."""
    segments = [segment for lines in axes.collections if isinstance(lines, LineCollection) for segment in lines.get_segments()]
    ends = [axes.transData.transform(segment) for segment in segments if len(segment) == 2 and np.isfinite(segment).all()]
    return [Bbox([end.min(axis=0) - 1, end.max(axis=0) + 1]) for end in ends]


def curves_of(axes):
    """Small boxes in pixels along curves and the grey lines of zero."""
    for line in axes.lines:
        strong = line.get_linewidth() > 0.8 or line.get_color() == GREY
        if line.get_linestyle() in ("None", "none", "", " ") or not strong:
            continue
        at = line.get_transform().transform(np.column_stack(line.get_data()).astype(float))
        at = at[np.isfinite(at).all(axis=1)]
        for start, end in zip(at, at[1:]):
            for x, y in start + np.linspace(0, 1, 2 + int(np.hypot(*(end - start)) / 4))[:, None] * (end - start):
                yield Bbox.from_bounds(x - 1, y - 1, 2, 2)


def label_points(axes, points, labels, first=(), avoid=(), padding=0):
    """Labels as many of the points (x, y) as there is space for, those of `first` before the others: inside the axes,
    over no other label, no point, none of the points in `avoid`, no error bar and no curve. Call it when the layout is final."""
    points = [(x, y) for x, y in points]
    renderer = axes.figure.canvas.get_renderer()
    inside = axes.get_window_extent(renderer)
    at = [axes.transData.transform(point) for point in points]
    marks = at + [axes.transData.transform(point) for point in avoid]
    taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in marks if np.isfinite([x, y]).all()]
    taken += bars_of(axes) + list(curves_of(axes))
    order = [i % len(points) for i in first] + list(range(len(points)))
    for i in dict.fromkeys(order):
        if not np.isfinite(at[i]).all():
            continue
        for offset, horizontal, vertical in PLACES:
            text = axes.annotate(labels[i], points[i], xytext=offset, textcoords="offset points", ha=horizontal,
                                 va=vertical, fontsize=7, color="#404040", zorder=6)
            box = text.get_window_extent(renderer).padded(padding)
            own = Bbox.from_bounds(at[i][0] - 4, at[i][1] - 4, 8, 8)
            if (inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
                    and not any(box.overlaps(other) for other in taken if other.bounds != own.bounds)):
                taken.append(box)
                break
            text.remove()


def save(figure: Figure, folder: pathlib.Path, name: str) -> "list[pathlib.Path]":
    """Writes the figure as PNG and PDF; returns their paths."""
    paths = [folder / f"{name}.{ending}" for ending in ("png", "pdf")]
    for path in paths:
        with matplotlib.rc_context(LOOK):
            figure.savefig(path, metadata={"CreationDate": None} if path.suffix == ".pdf" else {"Software": None})
    return paths


def store(figure: Figure, folder: pathlib.Path, name: str) -> None:
    """Writes the figure as save() does, and prints the paths."""
    print(*save(figure, folder, name), sep="\n")
