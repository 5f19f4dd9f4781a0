#!/usr/bin/env python3
"""Writes a report on results cubes that can be sent to a colleague:  report.py RESULTS.h5 ... --out DIR

DIR/report.html is one page with everything in it: what was run, on which checkpoints and texts, the results, what failed, every
figure, and the fits of fits.py. Beside it each figure is stored as PNG and PDF. All numbers come from the cubes."""

import argparse
import base64
import contextlib
import io
import json
import pathlib
import sys

import jinja2

import fit_figures
import fit_tables
import fits
import points as points_of
import style
import summary
from catalogue import FIGURES
from cube import choose_models, families, open_cube, widths

INCHES = 40  # a taller figure of several runs is drawn run by run
PIXELS = 96  # of the page, an inch
PRINTED = {"fit_token_law": "Token law", "fit_tokens_or_rate": "Tokens or learning rate", "fit_predictions": "Predicting",
           "fit_full_precision": "Full-precision law"}


def picture(figure, identity, title, shows, data, bars):
    """A drawn figure as the page shows it."""
    with io.BytesIO() as file:
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        uri = "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
    width, height = (round(PIXELS * inches) for inches in figure.get_size_inches())
    return {"id": identity, "title": title, "shows": shows, "data": data, "bars": bars, "uri": uri, "width": width, "height": height}


def parts_of(cube, figure, bits):
    """Drawn figures and what to add to their names: one, or one a run where that would be too tall."""
    drawn = figure.draw(cube, bits)
    groups = families(cube)
    if drawn is None or drawn.get_figheight() <= INCHES or len(groups) == 1:
        return [] if drawn is None else [(drawn, "", cube)]
    style.plt.close(drawn)
    parts = [(lines[0].model, choose_models(cube, [line.model for line in lines])) for lines in groups]
    return [(one, f"-{i + 1}", part) for i, (_, part) in enumerate(parts) if (one := figure.draw(part, bits)) is not None]


def pictures_of(cube, said, bits, out, prefix):
    """Draws and stores every figure; returns them and the names of those that the cube has no data for."""
    pictures, missing = [], []
    for figure in FIGURES:
        parts = parts_of(cube, figure, bits)
        if not parts:
            missing.append(f"{figure.title}: the cube has no {figure.needs}.")
        for drawn, ending, part in parts:
            title = figure.title + (f": {part.model.values[0]}" if ending else "")
            data = f"{summary.models_text(part)}; {summary.scored_text(part, said, figure.scored)}"
            name = f"{prefix}{figure.name}{ending}"
            pictures.append(picture(drawn, name, title, figure.shows, data, figure.bars))
            style.save(drawn, out, name)
    return pictures, missing


def part_of_page(path, cube, bits, out, number):
    """What the page says of one cube."""
    said = summary.provenance(cube)
    prefix = f"{number}-" if number else ""
    pictures, missing = pictures_of(cube, said, bits, out, prefix)
    return {"id": f"cube{number}", "file": path.name, "title": str(cube.attrs.get("title", "")) or path.stem,
            "run": summary.of_run(cube, said), "methods": summary.of_methods(cube, said), "settings": summary.of_settings(said),
            "sweep": json.dumps(said["config"], indent=1) if said["config"] else "", "checkpoints": summary.of_checkpoints(cube, said),
            "texts": summary.of_texts(cube, said), "tasks": summary.of_tasks(cube, said), "results": summary.all_results(cube, widths(cube, bits)),
            "accuracies": summary.all_accuracies(cube, widths(cube, bits)), "failures": summary.of_failures(cube),
            "pictures": pictures, "missing": missing}


def fits_of(paths, models, bits, draws, out):
    """Blocks of the fits with their figures behind their headings' tables, and what was not fitted."""
    try:
        points, dropped = points_of.read(paths)
        chosen = points[points.model.isin(models) & points.bits.isin(bits or set(points.bits))].reset_index(drop=True)
        if len(chosen) == 0:
            raise ValueError("there are no points with an added loss")
    except ValueError as error:
        return [], [f"Fits: {error}."]
    found = fits.run(chosen, draws=draws)
    figures = {}
    for name, draw in fit_figures.FIGURES.items():
        figure = draw(found, chosen)
        if figure is None:
            continue
        data = f"{len(chosen)} points of {chosen.model.nunique()} runs and branches; {', '.join(sorted(set(chosen.dataset)))}"
        figures[name] = {"kind": "figure", "picture": picture(figure, name, *fit_figures.CAPTIONS[name][:2], data, fit_figures.CAPTIONS[name][2])}
        style.save(figure, out, name)
    out = fit_tables.in_words(chosen, dropped)
    for block in fit_tables.blocks(found):
        out.append(block)
        if block.kind == "heading":
            out += [figures[name] for name, begin in PRINTED.items() if block.text.startswith(begin) and name in figures]
    return out, [f"{fit_figures.CAPTIONS[name][0]}: the points are too few for this fit (see Fits)." for name in fit_figures.FIGURES if name not in figures]


def write_page(context, path):
    """Fills report.html, which stands beside this file."""
    folder = pathlib.Path(__file__).resolve().parent
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined)
    path.write_text(environment.get_template("report.html").render(context), encoding="utf-8")


def arguments():
    parser = argparse.ArgumentParser(description="Writes a report on results cubes: one HTML page, and its figures as PNG and PDF.")
    parser.add_argument("results", type=pathlib.Path, nargs="+", help="cubes (HDF5) that qtraj run wrote")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for report.html and the figures")
    parser.add_argument("--bits", help="bit-widths to show, such as 3,4; default: all")
    parser.add_argument("--fit-bits", help="bit-widths of the fits, such as 2,3,4; default: those that are shown")
    parser.add_argument("--model", help="models to show: names or shell patterns with commas between; default: all")
    parser.add_argument("--title", help="heading of the page; default: the names of the sweeps")
    parser.add_argument("--draws", type=int, default=400, help="draws of each bootstrap of the fits (default 400)")
    options = parser.parse_args()
    for name in ("bits", "fit_bits"):
        text = getattr(options, name)
        try:
            setattr(options, name, [int(width) for width in text.split(",")] if text else None)
        except ValueError:
            parser.error(f"--{name.replace('_', '-')} {text}: expected numbers with commas between, such as 3,4")
    if options.draws < 0:
        parser.error(f"--draws {options.draws}: expected 0 (no bootstrap) or more")
    return options


def opened(path, patterns):
    """The cube, with the chosen models; the program ends with one line if it cannot be read."""
    try:
        cube = open_cube(path)
        cube = choose_models(cube, patterns.split(",")) if patterns else cube
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: not a results cube that can be read: {error}")
    if "loss_relative" not in cube or not families(cube):
        sys.exit(f"{path}: none of its checkpoints has a place in training")
    return cube


def main():
    options = arguments()
    cubes = [opened(path, options.model) for path in options.results]
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"--out {options.out}: {error.strerror}")
    numbers = range(1, len(cubes) + 1) if len(cubes) > 1 else [0]
    with contextlib.redirect_stdout(sys.stderr):
        parts = [part_of_page(path, cube, options.bits, options.out, n) for path, cube, n in zip(options.results, cubes, numbers)]
        models = {str(name) for cube in cubes for name in cube.model.values}
        fitted, unfitted = fits_of(options.results, models, options.fit_bits or options.bits, options.draws, options.out)
    missing = [text for part in parts for text in ([f"{part['file']}: {m}" for m in part["missing"]] if len(parts) > 1 else part["missing"])]
    title = options.title or ", ".join(dict.fromkeys(part["title"] for part in parts)) + ": quantization along training"
    page = options.out / "report.html"
    write_page({"title": title, "cubes": parts, "fits": fitted, "missing": missing + unfitted}, page)
    print(page)


if __name__ == "__main__":
    main()
