"""The command predict.py: what a law that fits.py --save wrote says of other models."""

import argparse
import itertools
import json
import sys

import numpy as np
import pandas

from qtraj.arguments import numbers
from qtraj.cube.parts import located
from qtraj.cube.points import numbers_of
from qtraj.cube.points import points as points_of
from qtraj.laws.forms import TERMS
from qtraj.predict import projections, saved, tables, values
from qtraj.predict.ahead import ahead, save_beside
from qtraj.predict.levels import level_map


def arguments():
    parser = argparse.ArgumentParser(description="Says what a law of the added loss, or `published` (arXiv 2411.17691), predicts for a model.")
    parser.add_argument("law", help="file that fits.py --save wrote, or: published")
    parser.add_argument("--parameters", metavar="N,N", help="without embeddings, such as 1e9,7e9")
    parser.add_argument("--tokens", metavar="D,D", help="training tokens, such as 1e12,1e13")
    parser.add_argument("--bits", metavar="P,P", help="bit-widths, such as 3,4")
    parser.add_argument("--rate", type=float, help="learning rate over the run's greatest, where the law has it")
    parser.add_argument("--peak-rate", type=float, help="the run's greatest learning rate, where the law has it")
    parser.add_argument("--set", action="append", default=[], metavar="COLUMN=X", help="another column that the law has, such as trace=900")
    parser.add_argument("--level", type=float, default=0.2, metavar="NATS", help="added loss of a fully trained model (default 0.2)")
    parser.add_argument("--rows", metavar="CSV", help="predicts each row of a table with these columns")
    parser.add_argument("--score", nargs="+", metavar="POINTS", help="predicts the points of cubes or tables, and says how well")
    parser.add_argument("--ahead", metavar="RESULTS", help="what the rest of the runs of a cube that are still trained will cost; also writes "
                        "RESULTS.coming.json, which qtraj status prints; with --end")
    parser.add_argument("--end", type=float, metavar="TOKENS", help="of --ahead: training tokens at which the rate, if it falls from now on, is zero")
    parser.add_argument("--quantizer", metavar="LABEL", help="of --score: points of this method only")
    parser.add_argument("--dataset", metavar="NAME", help="of --score: points of this text alone")
    parser.add_argument("--table", action="store_true", help="tokens until 0.2 to 0.5 nats for 1B to 405B parameters (Table 1 of the paper)")
    parser.add_argument("--projection", action="store_true", help="loss over tokens up to 1e14 (figure 1 of the paper)")
    parser.add_argument("--map", action="store_true", help="training levels over sizes and tokens (figure 11 of the paper); with --rows, marks these models")
    parser.add_argument("--figure", metavar="FILE", help="of --projection and --map: also draws it")
    parser.add_argument("--width", type=float, metavar="INCHES", help="of --figure: such as 3.3 or 6.8")
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text")
    options = parser.parse_args()
    if options.figure and not (options.projection or options.map):
        parser.error("--figure: of --projection and --map")
    if (options.ahead is None) != (options.end is None):
        parser.error("--ahead and --end: each goes with the other")
    for name in ("parameters", "tokens", "bits"):
        setattr(options, name, numbers(parser, f"--{name}", getattr(options, name), float))
    if options.rate is not None and not 0 <= options.rate <= 1:
        parser.error(f"--rate {options.rate:g}: expected 0 to 1, of the run's greatest")
    for flag in ("--peak-rate", "--level", "--end", "--width"):
        value = getattr(options, flag[2:].replace("-", "_"))
        if value is not None and not 0 < value < np.inf:
            parser.error(f"{flag} {value:g}: expected a positive number")
    options.columns = {}
    for text in options.set:
        name, _, value = text.partition("=")
        try:
            options.columns[name] = float(value)
        except ValueError:
            parser.error(f"--set {text}: expected a column and a number, such as trace=900")
    return options


def table_of(path):
    try:
        table = pandas.read_csv(path, comment="#", skipinitialspace=True)
    except ValueError as error:
        raise ValueError(f"{path}: not a table: {error}") from None
    known = {column for _, columns in TERMS.values() for column in columns}
    return table.assign(**{name: numbers_of(table, name, path) for name in table if name in known})


def rows_of(options, law):
    """One row for each size, number of tokens and bit-width, or the rows of a table."""
    if options.rows:
        return table_of(options.rows)
    if unknown := set(options.columns) - set(law.form.columns) - set(law.fixed):
        raise ValueError(f"--set {min(unknown)}: the law has no such column; it has {', '.join(law.form.columns)}")
    peak = 1.0 if options.peak_rate is None and "peak rate" not in law.form.coefficients else options.peak_rate
    rates = {"learning_rate": None if options.rate is None or peak is None else options.rate * peak, "peak_rate": peak}
    given = {name: value for name, value in rates.items() if value is not None} | options.columns
    lists = {"parameters": options.parameters, "tokens": options.tokens, "bits": options.bits or [law.fixed[name] for name in law.fixed if name == "bits"]}
    if not lists["tokens"] or not lists["bits"]:
        raise ValueError("what to predict: --tokens and --bits, with --parameters where the law has sizes; or --rows, --score, --table, --projection, --map")
    lists = {name: values for name, values in lists.items() if values}
    return pandas.DataFrame([dict(zip(lists, one)) | given for one in itertools.product(*lists.values())])


def scored(options, law):
    points = points_of(*options.score)
    for name in ("quantizer", "dataset"):
        wanted = getattr(options, name) or law.about.get({"quantizer": "method", "dataset": "text"}[name])
        there = sorted(set(points[name]))
        if getattr(options, name) or wanted in there:
            points = points[points[name] == wanted]
        if len(points) == 0:
            raise ValueError(f"no point has the {name} {wanted}; there are {', '.join(there) or 'none'}")
    return values.score(law, points.reset_index(drop=True))


def coming(options, law):
    results = located(options.ahead)
    found = ahead(law, points_of(results), options.end)
    save_beside(found, results, options.law, options.end)
    return found


def write(found, form):
    """A table, or a dictionary, as text, CSV or JSON."""
    if isinstance(found, dict):
        print(json.dumps(found, indent=1) if form == "json" else "\n".join(f"{name}: {value}" for name, value in found.items()))
        return
    if form == "json":
        print(json.dumps(json.loads(found.replace([np.inf], "never").to_json(orient="records")), indent=1))
    elif form == "csv":
        print(found.to_csv(index=False), end="")
    else:
        shown = found.dropna(axis=1, how="all")
        shown = shown.drop(columns=[name for name in ("peak_rate",) if name in shown])
        print(shown.to_string(index=False, float_format=lambda value: "never" if np.isinf(value) else f"{value:.4g}"))


def draw(options, found):
    """The figure that --figure names."""
    from qtraj.predict import drawing  # matplotlib: a second, which nothing else here needs

    if options.map:
        figure = drawing.level_figure(found, table_of(options.rows) if options.rows else None, options.width)
    else:
        figure = drawing.projection_figure(found, options.width)
    figure.savefig(options.figure)


def main():
    options = arguments()
    try:
        law = saved.load(options.law)
        if options.ahead:
            found = coming(options, law)
        elif options.score:
            found = scored(options, law)
        elif options.table:
            found = tables.table_of_tokens(law)
        elif options.projection:
            found = projections.projection(law)
        elif options.map:
            found = level_map(law, full_at=options.level)
        else:
            found = values.predict(law, rows_of(options, law), options.level)
        if options.figure:
            draw(options, found)
    except (OSError, ValueError) as error:
        sys.exit(f"predict.py: {error}")
    write(found, options.format)
    for note in law.about.get("notes", ()):
        print(f"note: {note}", file=sys.stderr)
