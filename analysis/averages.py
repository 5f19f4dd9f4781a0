"""What averaging changes: the loss of the last average of each entry of `averages` minus the loss of its last member, in full
precision and quantized, a panel an entry and text. Bars are paired: both are scored on the same sequences."""

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


def last_member(cube, line):
    """Names of the line's last average and of the stored checkpoint at the same place of training."""
    names = cube.checkpoint_name.sel(model=line.model).values
    parent = line.parent
    there = parent.places[parent.at == line.at[-1]]
    return (str(names[line.places[-1]]), str(names[there[-1]])) if len(there) else None


def draw(cube, bits):
    bits = widths(cube, bits)
    whole, cells = rows_of(cube, "checkpoints"), rows_of(cube, "cells")
    found = []
    for line in (line for lines in families(cube, averages=True) for line in lines if line.average):
        pair = last_member(cube, line)
        for dataset in cube.dataset.values if pair else []:
            full = change(*(whole(line.model, name, dataset) for name in pair))
            of = {quantizer: [change(*(cells(line.model, name, dataset, width, quantizer) for name in pair)) for width in bits]
                  for quantizer in cube.quantizer.values}
            if np.isfinite(full[0]):
                found.append((line, pair, str(dataset), full, of))
    if not found:
        return None
    figure, panels = style.panel_grid(len(found), 4.0, 3.0)
    across = 1 + np.arange(len(bits))
    for axes, (line, pair, dataset, full, of) in zip(panels, found):
        axes.axhline(0, color=style.GREY, linestyle=":", linewidth=1, zorder=1)
        axes.errorbar([0], [full[0]], yerr=[full[1]], color=style.FULL_PRECISION[0], marker=style.FULL_PRECISION[1], capsize=2)
        everything = [full]
        for i, (quantizer, values) in enumerate(of.items()):
            colour, marker = style.series_of(i)
            moved = across + 0.3 * ((i + 0.5) / len(of) - 0.5)
            axes.errorbar(moved, [v for v, _ in values], yerr=[e for _, e in values], color=colour, marker=marker,
                          linestyle="none", capsize=2, elinewidth=1)
            everything += values
        style.signed_log(axes, *np.array(everything).T)
        axes.set_xticks([0, *across], ["full", *(f"{width}" for width in bits)])
        axes.set(xlabel="Full precision, and bits of a code", ylabel="Change of the loss (nats a token)", xlim=(-0.5, len(bits) + 0.5))
        style.title(axes, f"{pair[0]} − {pair[1]}", line.model, dataset)
    style.finish(figure, [style.handle(style.FULL_PRECISION, "full precision")] + style.quantizer_handles(cube))
    return figure
