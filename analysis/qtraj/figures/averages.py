"""What averaging changes."""

import numpy as np

from qtraj.cube.files import widths
from qtraj.cube.paired import changes, rows_of
from qtraj.cube.trajectories import families
from qtraj.figures import colours, style
from qtraj.figures.figure import PAIRED, REPLICATED, figure_of_cube


@figure_of_cube(
    "What averaging changes",
    "Loss of the last average of each entry of averages minus the loss of its last member, in full precision and quantized: "
    "below zero, averaging helps.",
    f"{PAIRED}{REPLICATED}, the same text for both.", "evaluation", "averages in the sweep (models[].averages)")
def averages(cube, bits, place):
    """What averaging changes: the loss of the last average of each entry of `averages` minus the loss of its last member, in full
    precision and quantized, a panel an entry and text. Bars are paired: both are scored on the same sequences, and replicates of
    both are calibrated on the same draws."""
    bits = widths(cube, bits)
    lines = [line for lines in families(cube, averages=True) for line in lines if line.average]
    rows = rows_of(cube, "checkpoints"), rows_of(cube, "cells")
    found = [(line, *rest) for line in lines for rest in changes(cube, line, bits, *rows) if np.isfinite(rest[2][0])]
    if not found:
        return None
    figure, panels = place.panels(len(found), 3.3, 2.0)
    across = 1 + np.arange(len(bits))
    for axes, (line, names, dataset, full, of) in zip(panels, found):
        axes.axhline(0, color=style.GREY, linestyle=":", linewidth=1, zorder=1)
        style.draw_points(axes, [0], [full[0]], [full[1]], None, style.FULL_PRECISION)
        everything = [full]
        series = colours.of_quantizers(cube)
        for i, (quantizer, values) in enumerate(of.items()):
            moved = across + 0.3 * ((i + 0.5) / len(of) - 0.5)
            style.draw_points(axes, moved, *zip(*values), series[str(quantizer)])
            everything += [value[:2] for value in values]
        style.signed_log(axes, *np.array(everything).T)
        axes.set_xticks([0, *across], ["full", *(f"{width}" for width in bits)])
        axes.set(xlabel="Bits", ylabel="Change of the loss (nats)", xlim=(-0.5, len(bits) + 0.5))
        place.title(axes, f"{names[0]} − {names[1]}", line.model, dataset)
    place.finish([style.handle(style.FULL_PRECISION, "full precision")] + style.quantizer_handles(cube, bits))
    return figure
