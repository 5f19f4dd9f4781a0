#!/usr/bin/env python3
"""The tables of docs/methods.md, from the cubes of methods.yaml and trellis.yaml: error in percent at three checkpoints, with half of its
95 % interval.
PYTHONPATH=analysis python3 configs/quickstart/methods_table.py results/methods.h5 [PAGE.md]

Prints it, or puts it between the page's line <!-- table NAME -->, of the cube's file, and the next <!-- end -->."""

import pathlib
import re
import sys

import numpy as np

import qtraj
from qtraj.figures.frontier import moments


def number(value):
    return f"{value:.3f}" if abs(value) < 0.1 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def rows(cube):
    """Of each width the cells, the smallest error at the last checkpoint first."""
    line = qtraj.families(cube)[0][0]
    own = cube.isel(dataset=0).sel(model=line.model)
    places = [line.places[k] for k, _ in moments(line)]
    for width in own.bits.values:
        cells = own.sel(bits=width)
        done = np.flatnonzero(np.isfinite(cells.loss_relative.values[places]).all(axis=0))
        for k in sorted(done, key=lambda k: cells.loss_relative.values[places[-1], k]):
            cell = cells.isel(quantizer=k)
            errors = [f"{number(100 * cell.loss_relative.values[at])}±{number(196 * cell.loss_relative_stderr.values[at])}" for at in places]
            seconds = np.nanmedian(cell.seconds.values[places])
            yield [str(cell.quantizer.values), str(width), f"{cell.bits_per_weight.values[places[-1]]:.2f}", *errors, number(seconds)]


def main():
    cube = qtraj.open(sys.argv[1])
    heads = ["method", "bits", "stored", *(name for _, name in moments(qtraj.families(cube)[0][0])), "seconds"]
    lines = ["|" + "|".join(row) + "|" for row in (heads, ["---"] * len(heads), *rows(cube))]
    text = "\n".join(lines) + "\n"
    if len(sys.argv) < 3:
        print(text, end="")
        return
    with open(sys.argv[2], encoding="utf-8") as file:
        page = file.read()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(re.sub(rf"(?s)(<!-- table {pathlib.Path(sys.argv[1]).stem} -->\n).*?(<!-- end -->)", lambda found: found[1] + text + found[2], page))


if __name__ == "__main__":
    main()
