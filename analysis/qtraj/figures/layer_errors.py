"""Error by layer."""

import numpy as np

from qtraj.cube.files import open_group, widths
from qtraj.cube.trajectories import checkpoint_labels, families
from qtraj.figures import layer_map, style
from qtraj.figures.figure import NONE, enough, figure_of_cube

ERROR = "relative_error"


def errors_of(layers, line, cube, quantizer, width):
    """Names of the tensors, block by block, and their errors by (tensor, checkpoint); None where there are none."""
    names = [str(name) for name in line.own(cube.checkpoint_name)]
    rows = ((layers.model.values == line.model) & (layers.quantizer.values == quantizer)
            & (layers.bits.values == width))
    part = layers.isel({layers[ERROR].dims[0]: np.flatnonzero(rows)})
    values = part[ERROR].values
    if values.size == 0 or not np.isfinite(values).any():
        return None
    tensors = sorted((str(t) for t in part.layer.values), key=layer_map.split_name)
    order = [list(part.layer.values).index(t) for t in tensors]
    table = np.full((len(tensors), len(names)), np.nan)
    for cell, name in enumerate(part.checkpoint_name.values):
        if name in names:
            table[:, names.index(name)] = values[cell][order]
    return tensors, table


@figure_of_cube(
    "Error by layer",
    "Relative error of each quantized tensor's outputs on the calibration inputs, tr(ΔHΔᵀ)/tr(WHWᵀ), over training: a row of the "
    "map is a tensor, block by block, a column a checkpoint. The scale is logarithmic and differs between panels.",
    f"{NONE}.", "calibration", "errors of layers (methods that use calibration)")
def layer_errors(cube, bits, place):
    """Which layers lose most: the relative error of each quantized tensor over training, a row of panels a model and method, a column
    a width. In a panel a row is a tensor, block by block, and a column a checkpoint."""
    layers = open_group(cube, "layers")
    if layers is None:
        return None
    bits = widths(cube, bits)
    lines = [line for lines in families(cube) for line in lines]
    rows = []
    for line in lines:
        for quantizer in cube.quantizer.values:
            found = [errors_of(layers, line, cube, quantizer, width) for width in bits]
            if any(found):
                rows.append((line, quantizer, found))
    rows = enough(rows, lambda row: max(layer_map.columns_of(one[1]) for one in row[2] if one))
    if not rows:
        return None
    there = [i for i in range(len(bits)) if any(row[2][i] for row in rows)]
    bits, rows = [bits[i] for i in there], [(*row[:2], [row[2][i] for i in there]) for row in rows]
    figure, panels = place.grid(len(rows), len(bits), width=3.3, height=2.3)
    for (line, quantizer, found), row in zip(rows, panels):
        for axes, width, one in zip(row, bits, found):
            if one is None:
                place.leave_out(axes)
                continue
            positive = one[1][one[1] > 0]
            layer_map.draw_panel(figure, axes, *one, checkpoint_labels(cube, line), (positive.min(), positive.max()), f"Relative error of {style.plain(quantizer)}")
            place.title(axes, line.model, quantizer, f"{width} bits")
            axes.set(xlabel="Training step", ylabel="Block (tensors in order)")
    place.finish([])
    return figure
