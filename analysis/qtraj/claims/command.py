"""The command claims.py: what cubes say of the claims of both papers."""

import argparse
import json
import sys

import numpy as np

from qtraj.arguments import check_bits, numbers
from qtraj.claims.table import claims
from qtraj.cube import files
from qtraj.cube.points import roots, unfinished
from qtraj.cube.trajectories import trajectories


def arguments():
    parser = argparse.ArgumentParser(description="Says what cubes say of each claim of arXiv 2510.06213 and 2411.17691.")
    parser.add_argument("results", nargs="+", help="cubes (HDF5) that qtraj run wrote")
    parser.add_argument("--bits", help="bit-widths, such as 3,4; default: all")
    parser.add_argument("--quantizer", metavar="LABEL", help="this method alone")
    parser.add_argument("--dataset", metavar="NAME", help="this text alone")
    parser.add_argument("--only", default="", metavar="NAMES", help="these claims alone, with commas between")
    parser.add_argument("--compare", metavar="COLUMN", help="a table for each value that runs have in this column, such as learning_rate (the peak)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args()
    options.bits = numbers(parser, "--bits", options.bits)
    return options


def in_words(row):
    """The estimate with its interval and what it is from."""
    left_out = f", {row['left out']} left out" if row["left out"] else ""
    if np.isnan(row["estimate"]):
        return row["reason"] + left_out
    said = row["reason"] or f"{row['low']:.3g} to {row['high']:.3g}, over {row['interval over']}; {row['n']} run{'s'[:row['n'] != 1]}"
    return f"{row['estimate']:.3g} ({said}; {row['points']} errors{left_out}{'; of logarithms' if row['scale'] else ''})"


def groups(cube, by):
    """By each value that runs have in the column, the cube of these runs with their branches; without a column the cube itself."""
    if not by:
        return {"": cube}
    from qtraj.figures.compared import value_of  # which imports matplotlib

    found = {line.model: value_of(cube, line, by) for line in trajectories(cube)}
    values = {model: found[run] if run in found and found[run] == found[run] else "not known" for model, run in roots(cube).items()}
    return {value: files.of_models(cube, [model for model in values if values[model] == value])
            for value in sorted(set(values.values()), key=lambda value: (isinstance(value, str), files.natural(value) if isinstance(value, str) else value))}


def main():
    options = arguments()
    wanted = {name: value for name in ("bits", "quantizer", "dataset") if (value := getattr(options, name))}
    command = " ".join(["analysis/claims.py", *options.results, *(f"--{name} {','.join(map(str, value)) if name == 'bits' else value}"
                                                                  for name, value in wanted.items()), *([f"--compare {options.compare}"] if options.compare else [])])
    try:
        cube = files.open(*options.results)
        check_bits(options.bits, [cube])
        cube = files.select(cube, **wanted) if wanted else cube
        tables = {value: claims(part, options.only, command) for value, part in groups(cube, options.compare).items()}
    except (OSError, ValueError) as error:
        sys.exit(f"claims.py: {error}")
    for group, found in tables.items():
        for reason, count in found.attrs["left_out"].items():
            print(f"left out: {count} {reason}{f' ({options.compare} {group})' if options.compare else ''}", file=sys.stderr if options.json else sys.stdout)
    if options.json:
        rows = [{key: None if isinstance(value, float) and not np.isfinite(value) else value
                 for key, value in (({options.compare: group} if options.compare else {}) | row).items()}
                for group, found in tables.items() for row in found.to_dict("records")]
        print(json.dumps(rows, indent=1))
        return
    if missing := unfinished(cube):
        print(f"{missing}; this is of the others:")
    for group, found in tables.items():
        if options.compare:
            print(f"{options.compare} {group:.4g}" if isinstance(group, float) else f"{options.compare} {group}")
        for row in found.to_dict("records"):
            print(f"{row['name']}: {row['claim']} ({row['place']})\n  {row['estimand']}: {in_words(row)}\n  supported if {row['rule']}: {row['verdict']}")
