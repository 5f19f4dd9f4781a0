"""The command figures.py: draws the figures of results cubes."""

import argparse
import pathlib
import sys

from qtraj import figures
from qtraj.arguments import bit_widths, make_folder
from qtraj.cube import files
from qtraj.cube.trajectories import families

BY_NAME = {figure.__name__: figure for figure in figures.FIGURES}


def main():
    parser = argparse.ArgumentParser(description="Draws the figures of results cubes, which become one, as PNG and PDF.")
    parser.add_argument("results", type=pathlib.Path, nargs="+", help="cubes (HDF5) that qtraj run wrote")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the figures")
    parser.add_argument("--bits", help="bit-widths to show, such as 3,4; default: all")
    parser.add_argument("--model", help="models to show: names or shell patterns with commas between; default: all")
    parser.add_argument("--only", help=f"which figures ({', '.join(BY_NAME)}); default: all that the cube has numbers for")
    parser.add_argument("--compare", metavar="COLUMN", help="draws only the relative error of all runs in one panel, coloured by their values "
                        "in this column, such as learning_rate (the peak)")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(BY_NAME)
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        parser.error(f"there is no figure {unknown[0]}; there are {', '.join(BY_NAME)}")
    bits = bit_widths(parser, "--bits", options.bits)
    named = ", ".join(map(str, options.results))
    try:
        cube = files.open(*options.results)
    except ValueError as error:
        sys.exit(str(error))
    if options.model:
        try:
            cube = files.choose_models(cube, options.model.split(","))
        except ValueError as error:
            parser.error(f"--model: {error}")
    if not families(cube):
        sys.exit(f"{named}: none of its checkpoints has a place in training")
    make_folder("--out", options.out)
    if options.compare:
        try:
            figures.style.save(figures.compared(cube, options.compare, bits), options.out, "compared")
        except ValueError as error:
            sys.exit(f"--compare: {error}")
        return
    missing = []
    for name in names:
        try:
            figures.style.save(BY_NAME[name](cube, bits), options.out, name)
        except figures.NoNumbers:
            missing.append(f"{named}: no figure {name}: the cube has no {BY_NAME[name].caption.needs}")
    if options.only and missing:
        sys.exit("\n".join(missing))
