"""The command figures.py: draws the figures of results cubes."""

import argparse
import pathlib
import sys

from qtraj import figures
from qtraj.arguments import check_bits, make_folder, numbers
from qtraj.cube import files
from qtraj.cube.trajectories import families
from qtraj.figures.pages import pages
from qtraj.figures.processes import on_cores

BY_NAME = {figure.__name__: figure for figure in figures.FIGURES}


def draw(name, cube, bits, width, out):
    """Draws and stores a figure. Returns the files, what it leaves out, and why there is none."""
    try:
        drawn, paths = pages(BY_NAME[name], cube, bits, width), []
    except figures.NoNumbers as error:
        return [], "", str(error)
    for i, (figure, _) in enumerate(drawn):
        paths += figures.style.save(figure, out, name if len(drawn) == 1 else f"{name}-{i + 1}")
    return paths, BY_NAME[name].lacks(cube), ""


def main():
    parser = argparse.ArgumentParser(description="Draws the figures of results cubes, which become one, as PNG and PDF.")
    parser.add_argument("results", type=pathlib.Path, nargs="+", help="cubes (HDF5) that qtraj run wrote, their sweep files, or folders of parts")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the figures")
    parser.add_argument("--bits", help="bit-widths to show, such as 3,4; default: all")
    parser.add_argument("--model", help="models to show: names or shell patterns with commas between; default: all")
    parser.add_argument("--dataset", help="texts to show, as --model; default: all")
    parser.add_argument("--quantizer", help="methods to show, as --model; default: all")
    parser.add_argument("--only", help=f"which figures ({', '.join(BY_NAME)}); default: all that the cube has numbers for")
    parser.add_argument("--width", type=float, metavar="INCHES", help="of each figure: 3.3 for a column of a journal, 6.8 for a page; default: what its "
                        "panels need of these two")
    parser.add_argument("--compare", metavar="COLUMN", help="draws the relative error (or --only validation_loss, quantized_loss, agreement, accuracy) of all runs in "
                        "one panel, coloured by their values in this column, such as learning_rate (the peak)")
    parser.add_argument("--phase", action="store_true", help="shades the phases of training")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(BY_NAME)
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        parser.error(f"there is no figure {unknown[0]}; there are {', '.join(BY_NAME)}")
    bits = numbers(parser, "--bits", options.bits)
    if options.width is not None and not 2 <= options.width <= 40:
        parser.error(f"--width {options.width:g}: expected inches, 2 to 40")
    named = ", ".join(map(str, options.results))
    try:
        cube = files.open(*options.results)
    except ValueError as error:
        sys.exit(str(error))
    for axis in files.NAMED:
        patterns = getattr(options, axis)
        try:
            cube = files.choose(cube, axis, patterns.split(",")) if patterns else cube
        except ValueError as error:
            parser.error(f"--{axis}: {error}")
    check_bits(bits, [cube])
    if not families(cube):
        sys.exit(f"{named}: none of its checkpoints has a place in training")
    make_folder("--out", options.out)
    cube = cube.assign_attrs(phases=1) if options.phase else cube
    if options.compare:
        for name in names if options.only else ["relative_error"]:
            try:
                figure = figures.compared(cube, options.compare, bits, width=options.width, of=name)
            except ValueError as error:
                sys.exit(f"--compare: {error}")
            figures.style.store(figure, options.out, "compared" if name == "relative_error" else f"compared_{name}")
        return
    if not options.only:
        print(f"up to {len(names)} figures, in the order of --help; --only NAME,NAME draws some of them", file=sys.stderr)
    missing, lacking = [], []
    for name, (paths, lacks, why) in zip(names, on_cores(draw, names, cube, bits, options.width, options.out)):
        print(*paths, sep="\n", end="\n" if paths else "")
        missing += [f"{named}: no figure {name}: {why}"] if why else []
        lacking += [f"{named}: figure {name}: {lacks}"] if lacks else []
    if missing or lacking:
        print("\n".join(missing + lacking), file=sys.stderr)
    if options.only and missing:
        sys.exit(1)
