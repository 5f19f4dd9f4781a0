"""Spectra of the Hessian."""

import numpy as np
from matplotlib import colormaps

from qtraj.cube.files import open_group
from qtraj.cube.trajectories import checkpoint_labels, families
from qtraj.figures import style
from qtraj.figures.figure import NONE, figure_of_cube

CURVES = 6
DECADES = 1e-7  # of the density that are shown
WIDTH = 0.012  # of the Gaussians, as a share of the range that is shown


def density(nodes, weights, at, sigma):
    """Mean over the runs of the sum of weighted Gaussians."""
    bumps = np.exp(-0.5 * ((at[:, None] - nodes[None, :]) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    return bumps @ weights


def quadrature(rows, name):
    """Nodes and weights of a checkpoint, the weights of all its runs summing to one."""
    part = rows.isel({rows.node.dims[0]: np.flatnonzero(rows.checkpoint_name.values == name)})
    runs = max(1, len(np.unique(part.run.values)))
    return part.node.values, part.weight.values / runs


@figure_of_cube(
    "Spectra of the Hessian",
    "Density of the eigenvalues of the Hessian of the full-precision loss by stochastic Lanczos quadrature, averaged over its runs, each node a narrow "
    "Gaussian; up to six checkpoints of each run.", f"{NONE}.", "curvature", "spectral densities (curvature.density)")
def spectral_density(cube, bits, place):
    """Density of the Hessian's eigenvalues by stochastic Lanczos quadrature, a panel a model, up to six checkpoints of it spread
    evenly over training: the quadrature's nodes and weights, averaged over its runs, each node a Gaussian."""
    """bits is not used: it is the full-precision loss's Hessian."""
    rows = open_group(cube, "spectral_density")
    if rows is None:
        return None
    panels_of = []
    for line in (line for lines in families(cube) for line in lines):
        mine = rows.isel({rows.node.dims[0]: np.flatnonzero(rows.model.values == line.model)})
        names, labels = [str(n) for n in line.own(cube.checkpoint_name)], checkpoint_labels(cube, line)
        there = [i for i, name in enumerate(names) if (mine.checkpoint_name.values == name).any()]
        if there:
            chosen = sorted({there[round(k)] for k in np.linspace(0, len(there) - 1, min(CURVES, len(there)))})
            panels_of.append((line, mine, [(names[i], labels[i]) for i in chosen]))
    if not panels_of:
        return None
    figure, panels = place.panels(len(panels_of), width=3.3, height=2.0)
    for axes, (line, mine, chosen) in zip(panels, panels_of):
        low, high = float(mine.node.min()), float(mine.node.max())
        margin = 0.05 * max(high - low, 1e-12)
        at = np.linspace(low - margin, high + margin, 800)
        highest = 0.0
        for k, (name, label) in enumerate(chosen):
            nodes, weights = quadrature(mine, name)
            colour = colormaps["viridis"](k / max(len(chosen), 2))
            dash = ["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1))][k % 6]
            curve = density(nodes, weights, at, WIDTH * (high - low + 2 * margin))
            highest = max(highest, curve.max())
            axes.semilogy(at, np.maximum(curve, np.finfo(float).tiny), color=colour, linestyle=dash, linewidth=1,
                          label=f"step {label}" if label[0].isdigit() else label)
        axes.set_ylim(highest * DECADES, highest * 3)
        axes.set(xlabel="Eigenvalue of the Hessian", ylabel="Density (per unit of eigenvalue)")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1.05), borderaxespad=0, handlelength=1.5)
        place.title(axes, line.model)
    place.finish([])
    return figure
