"""Pictures of what a law says: losses over tokens, and training levels over sizes and tokens."""

import matplotlib
import numpy as np
import pandas
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from qtraj.cube.trajectories import compact
from qtraj.figures import colours, style
from qtraj.figures.place import Place

LEVELS = (0.01, 0.1, 1, 10, 100, 1000)


def projection_figure(found: pandas.DataFrame, width: "float | None" = None) -> Figure:
    """Loss, or added loss, over tokens, a panel a bit-width and a line a size; found: of projection()."""
    value = "loss_quantized" if "loss_quantized" in found else "delta"
    with matplotlib.rc_context(style.LOOK):
        place, widths, sizes = Place(None, width), sorted(set(found.bits)), sorted(set(found.parameters))
        figure, panels = place.panels(len(widths), 2.2, 2.0)
        names = {size: f"{compact(size, 3)} parameters".replace("G ", "B ") for size in sizes}
        series = colours.of_names(names.values())
        for axes, bits in zip(panels, widths):
            for size in sizes:
                part = found[(found.bits == bits) & (found.parameters == size)]
                axes.plot(part.tokens, part[value], color=series[names[size]][0])
            axes.axhline(found.guessing.iloc[0], color=style.GREY, linestyle=":")
            axes.set(xscale="log", xlabel="Training tokens", ylim=(0, 1.3 * found.guessing.iloc[0]),
                     ylabel="Loss (nats a token)" if value == "loss_quantized" else "Added loss (nats a token)")
            place.title(axes, f"{bits:g} bits")
        return place.finish([Line2D([], [], color=series[name][0], label=name) for name in names.values()] + [Line2D([], [], color=style.GREY, linestyle=":", label="guessing at random")])


def level_figure(found: pandas.DataFrame, rows: "pandas.DataFrame | None" = None, width: "float | None" = None) -> Figure:
    """Lines of equal training level over sizes and tokens, a panel a bit-width; grey: fully trained. found: of level_map(); rows: models to
    mark, with the columns parameters and tokens, and names in `model` if there are such."""
    with matplotlib.rc_context(style.LOOK):
        place, widths = Place(None, width), sorted(set(found.bits))
        figure, panels = place.panels(len(widths), 2.2, 2.0)
        handles = [Patch(color=style.GREY, alpha=0.25, linewidth=0, label="fully trained"),
                   Line2D([], [], color=style.BLACK, label="training level (tokens over tokens until fully trained)")]
        names = [] if rows is None else list(rows.model.astype(str)) if "model" in rows else [f"row {i + 1}" for i in range(len(rows))]
        series = colours.of_names(names)
        for axes, bits in zip(panels, widths):
            grid = found[found.bits == bits].pivot(index="tokens", columns="parameters", values="level")
            x, y, level = grid.columns.to_numpy(float), grid.index.to_numpy(float), grid.to_numpy(float)
            axes.set(xscale="log", yscale="log", xlabel="Parameters", ylabel="Training tokens", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
            axes.contourf(x, y, np.log10(level), levels=[0, 100], colors=[style.GREY], alpha=0.25)
            lines = axes.contour(x, y, np.log10(level), levels=np.log10(LEVELS), colors=style.BLACK, linestyles="solid",
                                 linewidths=[1.6 if one == 1 else 0.7 for one in LEVELS])
            for text in axes.clabel(lines, fmt=lambda power: f"{10.0 ** power:g}", fontsize=style.LOOK["font.size"], inline_spacing=2):
                if not ((place_in := axes.transAxes.inverted().transform(axes.transData.transform(text.get_position()))) == place_in.clip(0.1, 0.9)).all():
                    text.remove()  # half of it would be outside
            for name, row in zip(names, [] if rows is None else rows.itertuples()):
                axes.plot(row.parameters, row.tokens, color=series[name][0], marker=series[name][1], linestyle="", clip_on=False)
            place.title(axes, f"{bits:g} bits")
        return place.finish(handles + [style.handle(one, name) for name, one in series.items()])
