"""What averaging changes: the loss of the last average of each entry of `averages` minus the loss of its last member, in full
precision and quantized, a panel an entry and text. Bars are paired: both are scored on the same sequences, and replicates of
both are calibrated on the same draws."""

import numpy as np

import style
from cube import families, open_group, widths


def rows_of(cube, group):
    """A function from (model, checkpoint's name, text, width, method) to the losses of the row's sequences; None where
    there are none. Of full precision, width and method are None."""
    frame, losses = open_group(cube, group), open_group(cube, "sequences")
    if frame is None or losses is None:
        return lambda *key: None
    names = ["model", "checkpoint_name", "dataset"] + (["bits", "quantizer"] if group == "cells" else [])
    start, count, loss = frame.sequence_start.values, frame.sequence_count.values, losses.loss.values
    place = {key: i for i, key in enumerate(zip(*(frame[name].values for name in names)))}

    def find(*key):
        i = place.get(key)
        return loss[int(start[i]):int(start[i] + count[i])] if i is not None and count[i] > 0 else None

    return find


def change(first, second):
    """Mean and paired standard error of first − second; NaN where there is nothing to compare."""
    if first is None or second is None or len(first) != len(second):
        return np.nan, np.nan
    difference = first - second
    return difference.mean(), difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan


def with_deviation(cells, places, error):
    """The error of the change of a cell's loss from the second to the first of two places along the checkpoint axis together
    with its deviation over replicates; NaN without replicates of both."""
    if "loss_replicate" not in cells:
        return np.nan
    first, second = (np.append(cells.loss.values[place], cells.loss_replicate.values[place]) for place in places)
    moved = (first - second)[np.isfinite(first - second)]
    return np.hypot(error, moved.std(ddof=1)) if len(moved) > 1 else np.nan


def last_member(line):
    """Places along the checkpoint axis of the line's last average and of the stored checkpoint at the same moment of training."""
    parent = line.parent
    there = parent.places[parent.at == line.at[-1]]
    return (line.places[-1], there[-1]) if len(there) else None


def changes(cube, line, bits, whole, cells):
    """For each text: the names of the average and of its last member, the text, the change in full precision, and by method the
    changes with both parts of their errors. whole, cells: rows_of the losses in full precision and of cells."""
    places = last_member(line)
    names = [str(cube.checkpoint_name.sel(model=line.model).values[place]) for place in places or ()]
    for dataset in cube.dataset.values if places else []:
        of = {}
        for quantizer in cube.quantizer.values:
            of[quantizer] = []
            for width in bits:
                moved, error = change(*(cells(line.model, name, dataset, width, quantizer) for name in names))
                cell = cube.sel(model=line.model, dataset=dataset, bits=width, quantizer=quantizer)
                of[quantizer].append((moved, error, with_deviation(cell, places, error)))
        yield names, str(dataset), change(*(whole(line.model, name, dataset) for name in names)), of


def draw(cube, bits):
    bits = widths(cube, bits)
    lines = [line for lines in families(cube, averages=True) for line in lines if line.average]
    rows = rows_of(cube, "checkpoints"), rows_of(cube, "cells")
    found = [(line, *rest) for line in lines for rest in changes(cube, line, bits, *rows) if np.isfinite(rest[2][0])]
    if not found:
        return None
    figure, panels = style.panel_grid(len(found), 4.0, 3.0)
    across = 1 + np.arange(len(bits))
    for axes, (line, names, dataset, full, of) in zip(panels, found):
        axes.axhline(0, color=style.GREY, linestyle=":", linewidth=1, zorder=1)
        style.draw_points(axes, [0], [full[0]], [full[1]], None, style.FULL_PRECISION)
        everything = [full]
        for i, (quantizer, values) in enumerate(of.items()):
            moved = across + 0.3 * ((i + 0.5) / len(of) - 0.5)
            style.draw_points(axes, moved, *zip(*values), style.series_of(i))
            everything += [value[:2] for value in values]
        style.signed_log(axes, *np.array(everything).T)
        axes.set_xticks([0, *across], ["full", *(f"{width}" for width in bits)])
        axes.set(xlabel="Full precision, and bits of a code", ylabel="Change of the loss (nats a token)", xlim=(-0.5, len(bits) + 0.5))
        style.title(axes, f"{names[0]} − {names[1]}", line.model, dataset)
    style.finish(figure, [style.handle(style.FULL_PRECISION, "full precision")] + style.quantizer_handles(cube))
    return figure
