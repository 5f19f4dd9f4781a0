"""Where the error comes from: weights, activations, keys and values, alone and together."""

import numpy as np

from qtraj.cube import activations
from qtraj.cube.files import widths
from qtraj.cube.paired import rows_of
from qtraj.cube.trajectories import families
from qtraj.figures import colours, style
from qtraj.figures.figure import enough, figure_of_cube

PARTS = {"W": ("weights", colours.series(0)), "A": ("inputs of linears", colours.series(1)), "KV": ("keys and values", colours.series(2)),
         "K": ("keys", colours.series(3)), "V": ("values", colours.series(4))}
TOGETHER, SUM = (style.BLACK, "*"), (style.GREY, "P")


def combinations(cube, bits):
    """Of each method and width of weights the cell with the fewest bits of which all parts are there alone: its name, its width, and the cells
    of its parts."""
    known = activations.widths_of(cube)
    for base in dict.fromkeys(of.weights for of in known.values()):
        own = sorted((of for of in known.values() if of.weights == base and len(of.parts()) > 1), key=lambda of: (of.a + of.k + of.v, of))
        for width in (one for one in bits if (one == activations.FULL) == (base == "none")):
            for of in own:
                parts = {part: activations.cell_of(known, of.alone(part), width) for part in of.parts()}
                if all(parts.values()):
                    yield of, activations.cell_of(known, of, width), parts
                    break


def added(cells, whole, model, name, dataset, cell):
    """The loss that a cell adds to each sequence; None: not known."""
    own, full = cells(model, name, dataset, cell[1], cell[0]), whole(model, name, dataset)
    return own - full if own is not None and full is not None and len(own) == len(full) else None


def moments(values):
    """Mean and standard error of losses by sequence."""
    if values is None:
        return np.nan, np.nan
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan


def over_training(line, cube, dataset, together, parts, cells, whole):
    """{part, or TOGETHER, SUM, DIFFERENCE: (checkpoint, mean and error)} of the added loss."""
    found = {key: [] for key in (*parts, "together", "sum", "difference")}
    for name in line.own(cube.checkpoint_name):
        of = [added(cells, whole, line.model, str(name), dataset, cell) for cell in (together, *parts.values())]
        every = [] if any(one is None for one in of) else [sum(of[1:])]
        for part, one in zip(parts, of[1:]):
            found[part].append(moments(one))
        found["together"].append(moments(of[0]))
        found["sum"].append(moments(every[0] if every else None))
        found["difference"].append(moments(of[0] - every[0] if every else None))
    return {key: np.array(values, float).reshape(-1, 2) for key, values in found.items()}


def draw(axes, line, unit, values, series):
    axes.plot(line.at / unit, values[:, 0], color=series[0], linestyle=style.dash(line), zorder=3)
    style.draw_points(axes, line.at / unit, values[:, 0], values[:, 1], None, series, style.marker_style(series[0], line))


def name_of(of, cell):
    return " ".join(part + str({"W": cell[1], "A": of.a, "KV": of.k, "K": of.k, "V": of.v}[part]) for part in of.parts())


@figure_of_cube(
    "Where the error comes from",
    "Loss that quantizing weights (W), inputs of linears (A), keys and values (KV) adds, each alone, all together, and the sum of those "
    "alone; beside it what all together add beyond that sum: at zero the parts add up. Panels are of the fewest bits whose parts the "
    "sweep has alone. Dotted: the learning rate.",
    "one standard error over the text's sequences, paired: all are scored on the same sequences, so that the bars of the difference are "
    "of differences by sequence", "evaluation", "method that quantizes two of weights, activations and keys or values, beside each of them alone")
def error_parts(cube, bits, place):
    """The added loss of weights, activations, keys and values alone and together over training, and how far it is from additive. Averages
    are left out."""
    bits = widths(cube, bits)
    cells, whole = rows_of(cube, "cells"), rows_of(cube, "checkpoints")
    rows = []
    groups = families(cube)
    for lines in groups:
        for dataset in map(str, cube.dataset.values):
            for of, together, parts in combinations(cube, bits):
                rows.append((lines, dataset, name_of(of, together), together[0],
                             [over_training(line, cube, dataset, together, parts, cells, whole) for line in lines]))
    rows = enough(rows, lambda row: sum(int(np.isfinite(one["difference"][:, 0]).sum()) for one in row[-1]))
    if not rows:
        return None
    everything = [line for lines in groups for line in lines]
    unit, label = style.progress_scale(cube, everything)
    figure, panels = place.grid(len(rows), 2, width=3.3)
    for (lines, dataset, name, method, found), (left, right) in zip(rows, panels):
        left_parts = [part for part in PARTS if part in found[0]]
        for line, of in zip(lines, found):
            for part in left_parts:
                draw(left, line, unit, of[part], PARTS[part][1])
            draw(left, line, unit, of["sum"], SUM)
            draw(left, line, unit, of["together"], TOGETHER)
            draw(right, line, unit, of["difference"], TOGETHER)
        style.signed_log(left, *(np.concatenate([of[part][:, i] for of in found for part in (*left_parts, "together", "sum")]) for i in (0, 1)))
        right.axhline(0, color=style.GREY, linewidth=0.6, zorder=1)
        for axes, what in ((left, "Added loss (nats)"), (right, "Together − sum (nats)")):
            style.draw_learning_rate(place, axes, lines, unit, cube)
            place.title(axes, name, method, lines[0].model, dataset)
            axes.set_ylabel(what)
            style.name_progress(axes, label, lines, unit, cube)
    parts = [part for part in PARTS if any(part in row[-1][0] for row in rows)]
    place.finish([style.handle(PARTS[part][1], f"{PARTS[part][0]} alone") for part in parts]
                 + [style.handle(SUM, "sum of these"), style.handle(TOGETHER, "together")] + style.context_handles(everything, cube))
    return figure
