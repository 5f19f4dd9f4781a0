#!/usr/bin/env python3
"""Fits laws of the loss that quantization adds:  fits.py RESULTS.h5|POINTS.csv ... [--json] [--figures DIR]

1. The token law of arXiv 2411.17691, for each method and text: added loss = k D^beta / (N^alpha P^gamma).
2. The test that arXiv 2510.06213 asks for: tokens against learning rate, with fixed effects.
3. A formula that predicts the relative error from bits, learning rate, curvature and the size of the change of the
   weights, scored on runs that it was not fitted to, beside the token law.
4. The full-precision law of arXiv 2411.17691 (its Eq. 3).

docs/fits.md has the formulas and an example."""

import argparse
import contextlib
import json
import pathlib
import sys

import numpy as np

import effects
import fit_tables
import laws
import points as points_of


def law_of(points, draws):
    """Both fits of the token law to the points of one method and text; a text says why not."""
    try:
        first = laws.token_law(points, draws)
    except ValueError as error:
        return str(error)
    try:
        second = laws.token_law_robust(points, first)
    except ValueError as error:
        second = str(error)
    widths = {}
    for bits in sorted(set(points.bits)) if points.bits.nunique() > 1 else []:
        try:
            widths[float(bits)] = laws.token_law(points[points.bits == bits].reset_index(drop=True), 0)
        except ValueError as error:
            widths[float(bits)] = str(error)
    return {"logarithms": first, "robust": second, "each bit-width alone": widths}


def tokens_of(law, points, target, sizes):
    """Tokens at which the law of one method gives the added loss `target`, by size and bit-width, beside the published law."""
    sizes = sizes or sorted(set(points.parameters[points.parameters > 0]))
    fit, rows = law["logarithms"], []
    for size in sizes if fit.coefficients.get("beta", 0) > 0 else []:
        for bits in sorted(set(points.bits)):
            rows.append({"parameters": float(size), "bits": float(bits), "tokens": laws.tokens_needed(fit.coefficients, size, bits, target),
                         "interval": laws.tokens_needed_interval(fit, size, bits, target),
                         "published": laws.tokens_needed(laws.PUBLISHED, size, bits, target)})
    return rows


def attempt(fit, *arguments):
    try:
        return fit(*arguments)
    except ValueError as error:
        return str(error)


def run(points, target=0.2, sizes=(), draws=400):
    """Everything that the points are enough for; a text instead of a fit says why not."""
    out = {"token law": {}}
    for (quantizer, dataset), part in points.groupby(["quantizer", "dataset"], sort=False):
        part = part.reset_index(drop=True)
        law = law_of(part, draws)
        if not isinstance(law, str):
            law["tokens at the added loss"] = {"nats": target, "rows": tokens_of(law, part, target, sizes)}
        out["token law"][", ".join(name for name in (quantizer, dataset) if name) or "all points"] = law
    out["tokens or learning rate"] = effects.tokens_or_rate(points)
    out["predictions"] = attempt(effects.predictions, points)
    out["full-precision law"] = attempt(laws.full_precision_law, points, min(draws, 100))
    return out


# --- the tables ---


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
    if isinstance(thing, laws.Fit):
        return {key: plain(value) for key, value in vars(thing).items() if key != "draws"}
    if isinstance(thing, dict):
        return {str(key): plain(value) for key, value in thing.items() if key not in ("points", "predicted")}
    if isinstance(thing, (tuple, list)):
        return [plain(value) for value in thing]
    if isinstance(thing, (float, np.floating)):
        return float(thing) if np.isfinite(thing) else None
    return thing


# --- the command ---


def arguments():
    parser = argparse.ArgumentParser(description="Fits laws of the loss that quantization adds.")
    parser.add_argument("points", nargs="+", help="cubes (.h5) or tables of points (.csv)")
    parser.add_argument("--quantizer", metavar="LABEL", help="points of this method alone; default: every method")
    parser.add_argument("--dataset", metavar="NAME", help="points of this text alone")
    parser.add_argument("--bits", metavar="B,B", help="points of these bit-widths alone, such as 2,3,4")
    parser.add_argument("--warmup", action="store_true", help="keep checkpoints whose phase is warmup; default: left out")
    parser.add_argument("--delta", type=float, default=0.2, metavar="NATS", help="added loss that tokens are computed for (default 0.2)")
    parser.add_argument("--parameters", metavar="N,N", help="sizes that tokens are computed for, such as 1e9,7e9; default: those of the points")
    parser.add_argument("--draws", type=int, default=400, help="draws of each bootstrap (default 400)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--figures", type=pathlib.Path, metavar="DIR", help="also draws a figure of each fit into this folder")
    options = parser.parse_args()
    for name in ("bits", "parameters"):
        text = getattr(options, name)
        try:
            values = [float(value) for value in text.split(",")] if text else []
        except ValueError:
            values = [0]
        if any(not value > 0 for value in values):
            parser.error(f"--{name} {text}: expected positive numbers with commas between")
        setattr(options, name, values)
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


def main():
    options = arguments()
    try:
        points, dropped = points_of.read(options.points)
        points, warmup = choose(points, options)
    except (OSError, ValueError) as error:
        sys.exit(f"fits.py: {error}")
    if warmup:
        dropped["points in the phase warmup (--warmup keeps them)"] = warmup
    found = run(points, options.delta, options.parameters, options.draws)
    if options.json:
        print(json.dumps(plain({"used": len(points), "left out": dropped, **found}), indent=1))
    else:
        show(fit_tables.in_words(points, dropped))
        show(fit_tables.blocks(found))
    if options.figures:
        import fit_figures

        try:
            options.figures.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(f"--figures {options.figures}: {error.strerror}")
        with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
            fit_figures.save_all(found, points, options.figures)


if __name__ == "__main__":
    main()
