#!/usr/bin/env python3
"""Draws the figures of a results cube:  figures.py RESULTS.h5 --out DIR [--bits 3,4] [--model NAME] [--only NAME,NAME]"""

import argparse
import pathlib
import sys

import style
from catalogue import BY_NAME
from cube import choose_models, families, open_cube


def main():
    parser = argparse.ArgumentParser(description="Draws the figures of a results cube as PNG and PDF.")
    parser.add_argument("results", type=pathlib.Path, help="the cube (HDF5) that qtraj run wrote")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the figures")
    parser.add_argument("--bits", help="bit-widths to show, such as 3,4; default: all")
    parser.add_argument("--model", help="models to show: names or shell patterns with commas between; default: all")
    parser.add_argument("--only", help=f"which figures ({', '.join(BY_NAME)}); default: all that the cube has numbers for")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(BY_NAME)
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        parser.error(f"there is no figure {unknown[0]}; there are {', '.join(BY_NAME)}")
    try:
        bits = [int(width) for width in options.bits.split(",")] if options.bits else None
    except ValueError:
        parser.error(f"--bits {options.bits}: expected numbers with commas between, such as 3,4")
    try:
        cube = open_cube(options.results)
    except (OSError, ValueError) as error:
        sys.exit(f"{options.results}: not a results cube that can be read: {error}")
    if options.model:
        try:
            cube = choose_models(cube, options.model.split(","))
        except ValueError as error:
            parser.error(f"--model: {error}")
    if not families(cube):
        sys.exit(f"{options.results}: none of its checkpoints has a place in training")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"--out {options.out}: {error.strerror}")
    missing = []
    for name in names:
        figure = BY_NAME[name].draw(cube, bits)
        if figure is not None:
            style.save(figure, options.out, name)
        else:
            missing.append(f"{options.results}: no figure {name}: the cube has no {BY_NAME[name].needs}")
    if options.only and missing:
        sys.exit("\n".join(missing))


if __name__ == "__main__":
    main()
