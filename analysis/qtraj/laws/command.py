"""The command fits.py: fits laws of the loss that quantization adds."""

import argparse
import contextlib
import json
import pathlib
import sys

import numpy as np

from qtraj import predict
from qtraj.arguments import make_folder, numbers
from qtraj.cube import points as points_of
from qtraj.laws import added_loss, dynamics, full_precision, tables
from qtraj.laws.all_fits import attempt, fit_all
from qtraj.laws.fit import Fit
from qtraj.laws.forms import FORMS, SHORT


def print_table(rows):
    """Columns as wide as their longest text: the first at the left, the others at the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                               for i, (text, width) in enumerate(zip(row, widths))).rstrip())


def show(blocks):
    for block in blocks:
        if block.kind == "table":
            print_table(block.rows)
        else:
            before = {"heading": "\n", "part": "\n ", "note": "  note: ", "text": "  ", "summary": ""}[block.kind]
            print(before + block.text)


def plain(thing):
    """For JSON: no arrays, no points, null for what is not finite."""
    if isinstance(thing, Fit):
        return {key: plain(value) for key, value in vars(thing).items() if key not in ("draws", "form", "spread")}
    if isinstance(thing, dict):
        return {str(key): plain(value) for key, value in thing.items() if key not in ("points", "predicted")}
    if isinstance(thing, (tuple, list)):
        return [plain(value) for value in thing]
    if isinstance(thing, (float, np.floating)):
        return float(thing) if np.isfinite(thing) else None
    return thing


def arguments():
    parser = argparse.ArgumentParser(description="Fits laws of the loss that quantization adds.")
    parser.add_argument("points", nargs="+", help="cubes (.h5) or tables of points (.csv)")
    parser.add_argument("--quantizer", metavar="LABEL", help="points of this method only; default: every method")
    parser.add_argument("--dataset", metavar="NAME", help="points of this text alone")
    parser.add_argument("--bits", metavar="B,B", help="points of these bit-widths alone, such as 2,3,4")
    parser.add_argument("--warmup", action="store_true", help="keep checkpoints whose phase is warmup; default: left out")
    parser.add_argument("--delta", type=float, default=0.2, metavar="NATS", help="added loss that tokens are computed for (default 0.2)")
    parser.add_argument("--parameters", metavar="N,N", help="sizes that tokens are computed for, such as 1e9,7e9; default: those of the points")
    parser.add_argument("--draws", type=int, default=400, help="draws of each bootstrap (default 400)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--save", type=pathlib.Path, metavar="FILE", help="also writes a law as JSON for predict.py, of one method and text")
    parser.add_argument("--form", choices=(*SHORT, "best", "dynamics"), default="power", help="the form that --save writes: of the bit-width "
                        "(-16: zero at 16 bits), the best of these on runs left out, or the dynamics law (default power)")
    parser.add_argument("--figures", type=pathlib.Path, metavar="DIR", help="also draws a figure of each fit into this folder")
    options = parser.parse_args()
    for name in ("bits", "parameters"):
        setattr(options, name, numbers(parser, f"--{name}", getattr(options, name), float))
    if not options.delta > 0:
        parser.error(f"--delta {options.delta:g}: expected a positive number of nats")
    if options.draws < 0:
        parser.error(f"--draws {options.draws}: expected 0 (no bootstrap) or more")
    return options


def choose(points, options):
    """The points that the options ask for, and how many of the warmup are left out. ValueError: none."""
    for name in ("quantizer", "dataset"):
        wanted = getattr(options, name)
        if wanted is not None:
            there = sorted(set(points[name]))
            points = points[points[name] == wanted]
            if len(points) == 0:
                raise ValueError(f"no point has the {name} {wanted}; there are {', '.join(there) or 'none'}")
    if options.bits:
        there = sorted(set(points.bits))
        points = points[points.bits.isin(options.bits)]
        if len(points) == 0:
            raise ValueError(f"no point has these bits; there are {', '.join(f'{bits:g}' for bits in there)}")
    warmup = (points.phase == "warmup") & (not options.warmup)
    points = points[~warmup].reset_index(drop=True)
    if len(points) == 0:
        raise ValueError("there are no points with an added loss")
    return points, int(warmup.sum())


def save_figures(found, points, folder):
    """Writes a figure for each fit that there is."""
    from qtraj import figures  # matplotlib, which nothing else needs here

    for draw in figures.FIT_FIGURES:
        with contextlib.suppress(figures.NoNumbers):
            figures.style.store(draw(found, points), folder, draw.__name__)


def saved_law(points, options):
    """The law that --save writes. ValueError: the points have several methods or texts, or do not determine it."""
    for name in ("quantizer", "dataset"):
        if points[name].nunique() > 1:
            raise ValueError(f"--save: a law is of one {name}; --{name} chooses one of {', '.join(sorted(set(points[name])))}")
    if options.form == "dynamics":
        fit = dynamics.dynamics_law(points, options.draws)["law"]
    else:
        name = dynamics.compare_forms(points)["best"] if options.form == "best" else SHORT[options.form]
        fit = added_loss.fit_form(points, FORMS[name], options.draws)
    full = attempt(full_precision.full_precision_law, points, 0)
    return predict.law_of(fit, None if isinstance(full, str) else full, method=points.quantizer.iloc[0], text=points.dataset.iloc[0],
                          runs=int(points.family.nunique()), files=list(options.points))


def main():
    options = arguments()
    try:
        points = points_of.points(*options.points)
        dropped = points.attrs["left_out"]
        points, warmup = choose(points, options)
    except (OSError, ValueError) as error:
        sys.exit(f"fits.py: {error}")
    if warmup:
        dropped["points in the phase warmup (--warmup keeps them)"] = warmup
    try:
        found = fit_all(points, options.delta, options.parameters or (), options.draws)
        if options.save:
            predict.save(saved_law(points, options), options.save)
    except (OSError, ValueError) as error:
        sys.exit(f"fits.py: {error}")
    if options.json:
        print(json.dumps(plain({"used": len(points), "left out": dropped, **found}), indent=1))
    else:
        show(tables.in_words(points, dropped))
        show(tables.blocks(found))
    if options.figures:
        make_folder("--figures", options.figures)
        with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
            save_figures(found, points, options.figures)
