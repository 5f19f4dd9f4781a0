"""Loss surfaces."""

import warnings

import numpy as np
from matplotlib.ticker import MaxNLocator

from qtraj.cube.files import open_group
from qtraj.cube.trajectories import checkpoint_labels, families
from qtraj.figures import style
from qtraj.figures.figure import NONE, figure_of_cube

SMOOTH = 5  # points along an axis from which contour lines say something


def grid(points):
    """a, b and loss by (row, column) of a surface's grid; points that are not finished are NaN."""
    points = points.isel(row=points.point.values == "")
    i, j = (points[name].values.astype(int) for name in ("grid_row", "column"))
    shape = (i.max() + 1, j.max() + 1)
    out = []
    for name in ("a", "b", "loss"):
        values = np.full(shape, np.nan)
        values[i, j] = points[name].values
        out.append(values)
    return out


def axis_of(values):
    """One coordinate a column (or row), from those that are there."""
    known = np.flatnonzero(np.isfinite(values))
    return np.interp(np.arange(len(values)), known, values[known])


def axis_names(points, plane):
    if plane == "random":
        return "Multiple of the first direction", "Multiple of the second direction"
    if plane == "trajectory":
        first, second = (100 * float(points[name].values[0]) for name in ("share_1", "share_2"))
        return (f"First axis ({first:.0f} % of the variance), ‖Δw‖", f"Second axis ({second:.0f} %), ‖Δw‖")
    return "Towards the previous checkpoint, ‖Δw‖", "Across, to the quantized weights, ‖Δw‖"


def kind_of(points):
    """What surfaces of several runs have in common: the plane, its quantized weights, the text."""
    return tuple(str(points[name].values[0]) for name in ("plane", "bits", "quantizer", "dataset"))


def reach(loss):
    """The lowest and the highest of the finite losses that the colours tell apart."""
    known = loss[np.isfinite(loss)]
    return known.min(), max(np.percentile(known, 98), known.min() + 1e-9)


def scales(parts):
    """The lowest and the highest loss that the colours tell apart, by kind_of(): common to the runs that have such a surface."""
    found = {}
    for points in parts:
        found.setdefault(kind_of(points), {}).setdefault(str(points.model.values[0]), []).append(reach(points.loss.values[points.point.values == ""]))
    ends = {kind: np.concatenate(list(runs.values())) for kind, runs in found.items() if len(runs) > 1}
    return {kind: (both[:, 0].min(), both[:, 1].max()) for kind, both in ends.items()}


def runs_of(names, branches):
    """The places of the points of each run: those of a branch are called MODEL/CHECKPOINT."""
    found = {}
    for k, name in enumerate(map(str, names)):
        found.setdefault(next((one for one in branches if name.startswith(one + "/")), ""), []).append(k)
    return found


def draw_panel(place, figure, axes, points, scale, branches):
    plane = str(points.plane.values[0])
    a, b, loss = grid(points)
    with warnings.catch_warnings():  # rows and columns of which no point is finished yet
        warnings.simplefilter("ignore", RuntimeWarning)
        x, y = axis_of(np.nanmean(a, axis=0)), axis_of(np.nanmean(b, axis=1))
    low, high = scale or reach(loss)
    shown = axes.pcolormesh(x, y, loss, cmap="viridis", vmin=low, vmax=high, shading="nearest")
    if min(loss.shape) >= SMOOTH:
        axes.contour(x, y, loss, levels=np.linspace(low, high, 9)[1:], colors="white", linewidths=0.5, alpha=0.7)
    bar = figure.colorbar(shown, ax=axes, format="%.3g", extend="max" if np.nanmax(loss) > high else "neither")
    bar.locator = MaxNLocator(6)
    bar.update_ticks()
    bar.set_label(f"Loss on {points.dataset.values[0]} (nats)")
    exact = points.isel(row=points.point.values != "")
    for prefix, places in runs_of(exact.point.values, branches).items():
        axes.plot(exact.a.values[places], exact.b.values[places], linestyle=("--" if prefix else "-") if plane == "trajectory" else "none", marker="o",
                  color="white", markeredgecolor=style.BLACK, linewidth=0.8, zorder=5)
    names = axis_names(points, plane)
    axes.set(xlabel=names[0], ylabel=names[1])
    what = f"{int(points.bits.values[0])} bits {points.quantizer.values[0]}" if plane == "quantization" else ""
    place.title(axes, points.model.values[0], points.surface.values[0], what)


def short_names(cube, model):
    """The label of each checkpoint of the model by its name: its step, else the name."""
    return {str(name) if line.model == model else f"{line.model}/{name}": label for lines in families(cube) for line in lines
            for name, label in zip(line.own(cube.checkpoint_name), checkpoint_labels(cube, line))}


def label_panel(axes, cube, points):
    exact = points.isel(row=points.point.values != "")
    short = short_names(cube, str(points.model.values[0]))
    names = [short.get(str(name), str(name)) for name in exact.point.values]
    before = set(axes.texts)
    style.label_points(axes, zip(exact.a.values, exact.b.values), names, first=(0, -1), padding=2)
    for text in set(axes.texts) - before:
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8})


@figure_of_cube(
    "Loss surfaces",
    "Loss over planes through weight space. Points are the checkpoints and quantized weights that span the plane, numbers are steps, dashed "
    "lines join those of a branch; axes are Euclidean distances ‖Δw‖ between weights, or multiples of random directions. White lines join equal losses. The colour "
    "scale ends at the 98th percentile; planes of one kind of several runs share it.",
    f"{NONE}; all points of a plane are scored on the same sequences.", "surfaces", "surfaces (the sweep file's section surfaces)")
def loss_surface(cube, bits, place):
    """Loss surfaces: the loss at each point of the grid over each plane, with the points that span it. Labels are steps."""
    """bits is not used: a surface says itself which width it is of."""
    surfaces = open_group(cube, "surfaces")
    if surfaces is None:
        return None
    models = [str(name) for name in cube.model.values]
    names = cube.attrs.get("told", {}).get("surface") or list(dict.fromkeys(surfaces.surface.values))
    each = dict.fromkeys(zip(surfaces.model.values, surfaces.surface.values))
    parts = [surfaces.isel(row=(surfaces.model.values == model) & (surfaces.surface.values == name)) for model, name in each]
    parts = [part for part in parts if np.isfinite(part.loss.values[part.point.values == ""]).any()
             and str(part.model.values[0]) in models]
    common = scales(parts)
    parts = [part for part in parts if str(part.surface.values[0]) in list(map(str, names))]
    if not parts:
        return None
    figure, panels = place.panels(len(parts), width=3.3, height=2.5)
    branches = [line.model for lines in families(cube) for line in lines if line.parent]
    for axes, part in zip(panels, parts):
        draw_panel(place, figure, axes, part, common.get(kind_of(part)), branches)
    place.finish([])
    for axes, part in zip(panels, parts):
        label_panel(axes, cube, part)
    return figure
