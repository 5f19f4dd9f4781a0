"""Loss surfaces: contours of the loss on each plane, with the points that span it."""

import numpy as np
import xarray as xr

import style
from style import plt

LEVELS = 16


def open_surfaces(cube):
    """The points of all surfaces of the cube's file; None if it has none."""
    try:
        with xr.open_dataset(cube.encoding["source"], engine="h5netcdf", group="surfaces") as surfaces:
            return surfaces.load() if surfaces.sizes["row"] else None
    except OSError:  # written by a version without surfaces
        return None


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


def levels_of(loss):
    """Contour levels, closer together near the minimum, where the loss is nearly flat."""
    known = loss[np.isfinite(loss)]
    low, high = known.min(), np.percentile(known, 98)
    return low + (max(high - low, 1e-9)) * np.linspace(0, 1, LEVELS + 1) ** 2


def label_point(axes, x, y, text, i):
    axes.plot(x, y, "o", color="white", markeredgecolor=style.BLACK, markersize=6, zorder=5)
    axes.annotate(text, (x, y), xytext=(6, 6 if i % 2 == 0 else -12), textcoords="offset points", fontsize=8, zorder=6,
                  bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1})


def draw_points(axes, points, plane):
    exact = points.isel(row=points.point.values != "")
    x, y, names = exact.a.values, exact.b.values, exact.point.values
    if plane == "trajectory":
        axes.plot(x, y, "-o", color="white", markeredgecolor=style.BLACK, markersize=5, linewidth=1.2, zorder=4)
        x, y, names = x[[0, -1]], y[[0, -1]], names[[0, -1]]
    for i, name in enumerate(names):
        label_point(axes, x[i], y[i], str(name), i)


def axis_names(points, plane):
    if plane == "random":
        return "first direction", "second direction"
    if plane == "trajectory":
        first, second = (100 * float(points[name].values[0]) for name in ("share_1", "share_2"))
        return f"first principal axis ({first:.0f} % of the variance)", f"second ({second:.0f} %)"
    return "along the previous checkpoint", "along what quantization adds"


def draw_panel(figure, axes, points):
    plane = str(points.plane.values[0])
    a, b, loss = grid(points)
    levels = levels_of(loss)
    shown = axes.contourf(a, b, loss, levels=levels, cmap="viridis", extend="max")
    axes.contour(a, b, loss, levels=levels[1::2], colors="white", linewidths=0.5, alpha=0.6)
    bar = figure.colorbar(shown, ax=axes, format="%.2f", ticks=levels[::4])
    bar.set_label(f"loss on {points.dataset.values[0]} (nat)")
    draw_points(axes, points, plane)
    x, y = axis_names(points, plane)
    axes.set(xlabel=x, ylabel=y)
    what = f", {int(points.bits.values[0])} bits {points.quantizer.values[0]}" if plane == "quantization" else ""
    axes.set_title(f"{points.model.values[0]}: {points.surface.values[0]}{what}")


def draw(cube, bits):
    """bits is not used: each surface has one bit-width."""
    surfaces = open_surfaces(cube)
    if surfaces is None:
        return None
    parts = [surfaces.isel(row=surfaces.surface.values == name) for name in dict.fromkeys(surfaces.surface.values)]
    parts = [part for part in parts if np.isfinite(part.loss.values[part.point.values == ""]).any()]
    if not parts:
        return None
    figure, panels = plt.subplots(1, len(parts), figsize=(5.2 * len(parts), 4), squeeze=False)
    for axes, part in zip(panels[0], parts):
        draw_panel(figure, axes, part)
    figure.tight_layout()
    return figure
