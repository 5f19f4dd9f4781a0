"""Weights in few bits against weights and activations in few bits, over training."""

import numpy as np

from qtraj.cube import activations
from qtraj.cube.files import widths
from qtraj.cube.trajectories import families
from qtraj.figures import colours, style
from qtraj.figures.figure import PAIRED, enough, figure_of_cube, points_of

PLAIN = ("#000000", "*")  # weights alone


def series_of(width):
    return PLAIN if width == activations.FULL else colours.of_bits(width)


def curves_of(cube, bits):
    """By method and width of weights: {width of the inputs: name of the method that has it}, where keys and values stay."""
    known, found = activations.widths_of(cube), {}
    for name, of in known.items():
        if of.k != activations.FULL or of.v != activations.FULL:
            continue
        for width in (one for one in bits if (one == activations.FULL) == (of.weights == "none")):
            found.setdefault((of.weights, width), {})[of.a] = name
    return {key: of for key, of in found.items() if set(of) != {activations.FULL}}


@figure_of_cube(
    "Weights, and weights with activations, in few bits over training",
    "CE(quantized)/CE(full precision) − 1 with the inputs of linears in 16 bits (black: as they are) and fewer. A panel is a method and a "
    "width of its weights; none: weights as they are. Keys and values stay. Dotted: the learning rate.",
    f"{PAIRED}.", "evaluation", "methods with activations in few bits")
def activation_widths(cube, bits, place):
    """Relative error over training with inputs of linears in different widths, a panel a method and width of weights: W4 against W4A4.
    Averages are left out."""
    bits = widths(cube, bits)
    groups = families(cube)
    curves = [(lines, dataset, key, of) for lines in groups for dataset in cube.dataset.values for key, of in curves_of(cube, bits).items()]

    def values(one):
        _, dataset, (_, width), of = one
        return cube.loss_relative.sel(dataset=dataset, bits=width, quantizer=list(of.values()))

    there = enough(curves, lambda one: points_of(one[0], values(one)))
    if not there:
        return None
    everything = [line for lines in groups for line in lines]
    unit, label = style.progress_scale(cube, everything)
    figure, panels = place.panels(len(there))
    for axes, one in zip(panels, there):
        lines, dataset, (method, width), of = one
        drawn = []
        for inputs, name in sorted(of.items()):
            cells = cube.sel(dataset=dataset, bits=width, quantizer=name)
            pair = [100 * cells[variable] for variable in ("loss_relative", "loss_relative_stderr")]
            for line in lines:
                if np.isfinite(line.own(pair[0])).any():
                    style.draw_curve(axes, line, unit, *pair, series_of(inputs))
                    drawn.append([line.own(part) for part in pair])
        style.signed_log(axes, *(np.concatenate(part) for part in zip(*drawn)))
        style.draw_learning_rate(place, axes, lines, unit, cube)
        place.title(axes, "weights as they are" if method == "none" else method, "" if method == "none" else f"{width} bits", lines[0].model, dataset)
        axes.set_ylabel("Relative error (%)")
        style.name_progress(axes, label, lines, unit, cube)
    inputs = sorted({width for one in there for width in one[3]}, reverse=True)
    place.finish([style.handle(series_of(width), f"inputs in {width} bits") for width in inputs] + style.context_handles(everything, cube))
    return figure
