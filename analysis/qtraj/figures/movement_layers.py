"""Movement of the weights by layer."""

import numpy as np

from qtraj.cube.files import open_group, widths
from qtraj.cube.trajectories import checkpoint_labels, families
from qtraj.figures import layer_map, style
from qtraj.figures.figure import NONE, enough, figure_of_cube


def table_of(grids, line, cube, width):
    """Names of the tensors, block by block, and their movement by (tensor, checkpoint); None where there is none."""
    names = [str(name) for name in line.own(cube.checkpoint_name)]
    rows = np.flatnonzero((grids.model.values == line.model) & (grids.bits.values == width)
                          & np.isin(grids.checkpoint_name.values.astype(str), names))
    if len(rows) == 0:
        return None
    of = grids.tensor.values.astype(str)[rows]
    tensors = sorted(set(of), key=layer_map.split_name)
    table = np.full((len(tensors), len(names)), np.nan)
    places = {tensor: i for i, tensor in enumerate(tensors)}
    for row, tensor in zip(rows, of):
        table[places[tensor], names.index(str(grids.checkpoint_name.values[row]))] = grids.in_steps.values[row]
    return tensors, table


@figure_of_cube(
    "Movement of the weights by layer",
    "Root mean square change of a weight of each quantized tensor from one checkpoint to the next, at the later one, in steps of "
    "the quantizer's grid: a row of the map is a tensor, block by block, a column a checkpoint; the first has none before it. "
    "With other bit-widths all numbers change by one factor. The scale is logarithmic and differs between panels.",
    f"{NONE}: the numbers are exact.", "weights", "movement of the weights (the sweep file's key movement)")
def movement_layers(cube, bits, place):
    """How far each quantized tensor moves from one checkpoint to the next, in steps of the quantizer's grid: a panel a model, a row a
    tensor, block by block, a column a checkpoint. One bit-width is shown, since the grid's step has the same proportion to that of
    another width everywhere."""
    grids = open_group(cube, "movement_grids")
    if grids is None:
        return None
    found = []
    for line in (line for lines in families(cube) for line in lines):
        there = [(width, one) for width in widths(cube, bits) if (one := table_of(grids, line, cube, width)) is not None]
        if there and (there[0][1][1] > 0).any():
            found.append((line, *there[0]))
    found = enough(found, lambda one: layer_map.columns_of(one[2][1]))
    if not found:
        return None
    figure, panels = place.panels(len(found), width=3.3, height=2.3)
    for axes, (line, width, (tensors, table)) in zip(panels, found):
        positive = table[table > 0]
        layer_map.draw_panel(figure, axes, tensors, table, checkpoint_labels(cube, line), (positive.min(), positive.max()),
                   "Change of a weight (steps)")
        place.title(axes, line.model, f"{width} bits")
        axes.set(xlabel="Training step", ylabel="Block (tensors in order)")
    place.finish([])
    return figure
