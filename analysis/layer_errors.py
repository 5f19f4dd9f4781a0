"""Which layers lose most: the relative error of each quantized tensor over training, a row of panels a model and
method, a column a width. In a panel a row is a tensor, block by block, and a column a checkpoint."""

import re

import numpy as np
from matplotlib.colors import LogNorm

import style
from cube import checkpoint_labels, families, open_group, widths

ERROR = "relative_error"


def split_name(tensor):
    """Block and kind of a tensor: model.layers.3.mlp.up_proj.weight is (3, mlp.up_proj)."""
    match = re.search(r"\.(\d+)\.", tensor)
    kind = tensor[match.end():] if match else tensor
    return (int(match.group(1)) if match else -1), kind.removesuffix(".weight")


def errors_of(layers, line, cube, quantizer, width):
    """Names of the tensors, block by block, and their errors by (tensor, checkpoint); None where there are none."""
    names = [str(name) for name in line.own(cube.checkpoint_name)]
    rows = ((layers.model.values == line.model) & (layers.quantizer.values == quantizer)
            & (layers.bits.values == width))
    part = layers.isel({layers[ERROR].dims[0]: np.flatnonzero(rows)})
    values = part[ERROR].values
    if values.size == 0 or not np.isfinite(values).any():
        return None
    tensors = sorted((str(t) for t in part.layer.values), key=split_name)
    order = [list(part.layer.values).index(t) for t in tensors]
    table = np.full((len(tensors), len(names)), np.nan)
    for cell, name in enumerate(part.checkpoint_name.values):
        if name in names:
            table[:, names.index(name)] = values[cell][order]
    return tensors, table


def draw_panel(figure, axes, tensors, table, labels, limits, quantity):
    shown = axes.imshow(np.where(table > 0, table, np.nan), aspect="auto", cmap="viridis", norm=LogNorm(*limits),
                        interpolation="nearest")
    blocks = [split_name(tensor)[0] for tensor in tensors]
    starts = [i for i, block in enumerate(blocks) if i == 0 or block != blocks[i - 1]]
    starts = starts[::max(1, -(-len(starts) // 12))]
    axes.set_yticks(starts, [str(blocks[i]) if blocks[i] >= 0 else tensors[i] for i in starts])
    room = axes.get_window_extent().width
    widest = max(style.width_of(figure, label, 8) for label in labels) + 8
    every = max(1, int(np.ceil(len(labels) * widest / room)))
    axes.set_xticks(range(0, len(labels), every), labels[::every], fontsize=8)
    axes.spines[:].set_visible(False)
    figure.colorbar(shown, ax=axes).set_label(quantity)


def draw(cube, bits):
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
    if not rows:
        return None
    figure, panels = style.new_figure(len(rows), len(bits), width=4.2, height=3.2)
    for (line, quantizer, found), row in zip(rows, panels):
        for axes, width, one in zip(row, bits, found):
            if one is None:
                axes.set_visible(False)
                continue
            positive = one[1][one[1] > 0]
            draw_panel(figure, axes, *one, checkpoint_labels(cube, line), (positive.min(), positive.max()),
                       "Relative error tr(ΔHΔᵀ)/tr(WHWᵀ)")
            style.title(axes, line.model, quantizer, f"{width} bits")
            axes.set(xlabel="Training step", ylabel="Block (tensors in order)")
    style.finish(figure, [])
    return figure
