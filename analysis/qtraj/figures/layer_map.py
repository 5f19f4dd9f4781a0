"""Heat maps of tensors over training: a row a tensor, block by block, a column a checkpoint."""

import re

import numpy as np
from matplotlib.colors import LogNorm

from qtraj.figures import style


def split_name(tensor):
    """Block and kind of a tensor: model.layers.3.mlp.up_proj.weight is (3, mlp.up_proj)."""
    match = re.search(r"\.(\d+)\.", tensor)
    kind = tensor[match.end():] if match else tensor
    return (int(match.group(1)) if match else -1), kind.removesuffix(".weight")


def columns_of(table):
    """Checkpoints that have numbers."""
    return int(np.isfinite(table).any(axis=0).sum())


def draw_panel(figure, axes, tensors, table, labels, limits, quantity):
    """Checkpoints without numbers take no column."""
    known = np.isfinite(table).any(axis=0)
    table, labels = table[:, known], [label for label, there in zip(labels, known) if there]
    shown = axes.imshow(np.where(table > 0, table, np.nan), aspect="auto", cmap="viridis", norm=LogNorm(*limits),
                        interpolation="nearest")
    blocks = [split_name(tensor)[0] for tensor in tensors]
    starts = [i for i, block in enumerate(blocks) if i == 0 or block != blocks[i - 1]]
    starts = starts[::max(1, -(-len(starts) // 8))]
    axes.set_yticks(starts, [str(blocks[i]) if blocks[i] >= 0 else tensors[i] for i in starts])
    room = axes.get_window_extent().width
    widest = max(style.width_of(figure, label, 8) for label in labels) + 8
    every = max(1, int(np.ceil(len(labels) * widest / room)))
    axes.set_xticks(range(0, len(labels), every), labels[::every])
    axes.spines[:].set_visible(False)
    figure.colorbar(shown, ax=axes).set_label(quantity)
