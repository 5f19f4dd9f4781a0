"""The command report.py: one HTML page of results cubes, and its figures as PNG and PDF."""

import argparse
import pathlib
import sys

from qtraj.arguments import check_bits, make_folder, numbers
from qtraj.cube import files
from qtraj.cube.trajectories import families
from qtraj.report import page, summary


def arguments():
    parser = argparse.ArgumentParser(description="Writes a report on results cubes: one HTML page, and its figures as PNG and PDF.")
    parser.add_argument("results", type=pathlib.Path, nargs="+", help="cubes (HDF5) that qtraj run wrote, their sweep files, or folders of parts")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for report.html and the figures")
    parser.add_argument("--bits", help="bit-widths to show, such as 3,4; default: all")
    parser.add_argument("--fit-bits", help="bit-widths of the fits, such as 2,3,4; default: those that are shown")
    parser.add_argument("--model", help="models to show: names or shell patterns with commas between; default: all")
    parser.add_argument("--title", help="heading of the page; default: the names of the sweeps")
    parser.add_argument("--compare", metavar="COLUMN", help="adds the relative errors of all runs of all cubes in one panel, coloured by their values in this column, "
                        "such as learning_rate (the peak)")
    parser.add_argument("--draws", type=int, default=400, help="draws of each bootstrap of the fits (default 400)")
    parser.add_argument("--law", metavar="FIT.json", help="law that fits.py --save wrote of other runs, for runs that are still trained; with --end")
    parser.add_argument("--end", type=float, metavar="TOKENS", help="training tokens at which their learning rate, if it falls from now on, is zero")
    options = parser.parse_args()
    if (options.law is None) != (options.end is None):
        parser.error("--law and --end: each goes with the other")
    options.bits = numbers(parser, "--bits", options.bits)
    options.fit_bits = numbers(parser, "--fit-bits", options.fit_bits)
    if options.draws < 0:
        parser.error(f"--draws {options.draws}: expected 0 (no bootstrap) or more")
    return options


def opened(path, patterns):
    """The cube, with the chosen models; the program ends with one line if it cannot be read."""
    try:
        cube = files.read(path)
        cube = files.choose(cube, "model", patterns.split(",")) if patterns else cube
    except ValueError as error:
        sys.exit(str(error))
    if "loss_relative" not in cube or not families(cube):
        sys.exit(f"{path}: none of its checkpoints has a place in training")
    return cube


def main():
    options = arguments()
    cubes = {path: opened(path, options.model) for path in options.results}
    check_bits(options.bits, cubes.values())
    try:
        coming = summary.of_coming(cubes, options.law, options.end, options.bits) if options.law else None
    except ValueError as error:
        sys.exit(f"--law {options.law}: {error}")
    make_folder("--out", options.out)
    try:
        compared = page.compared_of(cubes, options.compare, options.bits, options.out) if options.compare else None
    except ValueError as error:
        sys.exit(f"--compare: {error}")
    print(page.write(cubes, options.out, options.bits, options.fit_bits, options.title, options.draws, coming, compared))
