"""A report on results cubes that can be sent to a colleague: report.html, one page with everything in it: the answer, what was run, on
which checkpoints and texts, the results, what failed, every figure, the fits, and what to cite. Beside it each figure is stored as PNG and PDF. All
numbers come from the cubes."""

import base64
import contextlib
import io
import json
import pathlib
import sys
from collections.abc import Sequence

import jinja2
import matplotlib

from qtraj import figures
from qtraj.claims import claims
from qtraj.cube import files
from qtraj.cube.points import points as points_of
from qtraj.figures import style
from qtraj.figures.figure import REPLICATED
from qtraj.figures.pages import pages, part_of
from qtraj.figures.processes import on_cores
from qtraj.laws import tables
from qtraj.laws.all_fits import fit_all
from qtraj.report import answer, sentences, summary

PIXELS = 96  # of the page, an inch
PRINTED = {"fit_token_law": "Token law", "fit_tokens_or_rate": "Tokens or learning rate", "fit_predictions": "Predicting",
           "fit_full_precision": "Full-precision law"}
REASONS = {"fit_tokens_or_rate": "tokens or learning rate", "fit_predictions": "predictions", "fit_full_precision": "full-precision law"}  # of fit_all


def picture(figure, identity, title, shows, data, bars):
    """A drawn figure as the page shows it."""
    with io.BytesIO() as file, matplotlib.rc_context(style.LOOK):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        uri = "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
    width, height = (round(PIXELS * inches) for inches in figure.get_size_inches())
    return {"id": identity, "title": title, "shows": shows, "data": data, "bars": bars, "uri": uri, "width": width, "height": height}


def bars_of(caption, replicated):
    """What the error bars are; of replicates only where there are some."""
    return caption.bars if replicated else caption.bars.replace(REPLICATED, "")


def pictures_of(name, cube, said, bits, out, prefix, first):
    """Draws and stores a figure, page by page; returns its pictures and what the cube has no data for. first: of answer_of, whose figure is
    the first page of its kind and is not drawn again."""
    figure, replicated = getattr(figures, name), answer.replicated(cube)
    caption = figure.caption
    there = first and first["picture"] and figure is figures.relative_error
    try:
        drawn = [one for part, some in answer.others(cube, first, bits) for one in pages_of(figure, part, some)] if there else pages(figure, cube, bits)
    except figures.NoNumbers as error:
        return [], [f"{caption.title}: {error}."]
    lacks = figure.lacks(cube)
    pictures, several = [], len(drawn) > 1 or there
    for i, (one, part) in enumerate(drawn, start=2 if there else 1):
        title = caption.title + (f": {part_of(part)}" if part_of(part) else "")
        data = f"{summary.models_text(part)}; {summary.scored_text(part, said, caption.scored)}"
        file = f"{prefix}{name}" + (f"-{i}" if several else "")
        pictures.append(picture(one, file, title, caption.shows, data, bars_of(caption, replicated)))
        style.store(one, out, file)
    return pictures, [f"{caption.title}: {lacks}."] if lacks else []


def all_pictures(*shared):
    """The pictures of all figures, and what there is no data for."""
    pictures, missing, names = [], [], [figure.__name__ for figure in figures.FIGURES]
    for number, (drawn, lacks) in enumerate(on_cores(pictures_of, names, *shared), start=1):
        print(f"figure {number} of {len(names)}: {names[number - 1]}", file=sys.stderr, flush=True)
        pictures += drawn
        missing += lacks
    return pictures, missing


def pages_of(figure, cube, bits):
    """As pages(); none without numbers."""
    try:
        return pages(figure, cube, bits)
    except figures.NoNumbers:
        return []


def answer_of(cube, said, bits, out, prefix):
    """What was asked and what came out, with one figure; None without numbers."""
    found = answer.of_cube(cube, said, bits)
    if found is None:
        return None
    part = files.select(files.of_models(cube, found["models"]), dataset=found["dataset"])
    with contextlib.suppress(figures.NoNumbers):
        figure, caption = figures.relative_error(part, found["bits"]), figures.relative_error.caption
        found["picture"] = picture(figure, f"{prefix}relative_error", caption.title, caption.shows, summary.models_text(part), bars_of(caption, answer.replicated(cube)))
        style.store(figure, out, f"{prefix}relative_error")
    return {"picture": None} | found


def part_of_page(path, cube, bits, out, number):
    """What the page says of one cube."""
    said = files.provenance(path)
    prefix = f"{number}-" if number else ""
    first = answer_of(cube, said, bits, out, prefix)
    pictures, missing = all_pictures(cube, said, bits, out, prefix, first)
    return {"id": f"cube{number}", "file": path.name, "title": str(cube.attrs.get("title", "")) or path.stem,
            "answer": first, "cite": summary.of_program(said), "inputs": summary.of_inputs(said), "weights": summary.of_weights(cube),
            "run": summary.of_run(cube, said), "methods": summary.of_methods(cube, said), "settings": summary.of_settings(said),
            "sweep": json.dumps(said["config"], indent=1) if said["config"] else "", "checkpoints": summary.of_checkpoints(cube, said),
            "texts": summary.of_texts(cube, said), "tasks": summary.of_tasks(cube, said), "results": summary.all_results(cube, files.widths(cube, bits)),
            "accuracies": summary.all_accuracies(cube, files.widths(cube, bits)), "failures": summary.of_failures(cube),
            "pictures": pictures, "missing": missing}


def fits_of(paths, models, bits, draws, out):
    """Blocks of the fits with their figures behind their headings' tables, and what was not fitted."""
    try:
        points = points_of(*paths)
        dropped = points.attrs["left_out"]
        chosen = points[points.model.isin(models) & points.bits.isin(bits or set(points.bits))].reset_index(drop=True)
        if len(chosen) == 0:
            raise ValueError("there are no points with an added loss")
    except ValueError as error:
        return [], [f"Fits: {error}."]
    found = fit_all(chosen, draws=draws)
    pictures, missing = {}, []
    for draw in figures.FIT_FIGURES:
        caption = draw.caption
        try:
            figure = draw(found, chosen)
        except figures.NoNumbers:
            why = found.get(REASONS.get(draw.__name__))
            missing.append(f"{caption.title}: {why if isinstance(why, str) else 'the points are too few for this fit (see Fits)'}.")
            continue
        runs = "1 run" if chosen.model.nunique() == 1 else f"{chosen.model.nunique()} runs and branches"
        data = f"{tables.counted(len(chosen), 'point')} of {runs}; {', '.join(sorted(set(chosen.dataset)))}"
        bars = bars_of(caption, bool((chosen.delta_deviation > 0).any()))
        pictures[draw.__name__] = {"kind": "figure", "picture": picture(figure, draw.__name__, caption.title, caption.shows, data, bars)}
        style.store(figure, out, draw.__name__)
    blocks = tables.in_words(chosen, dropped)
    part = ""
    for block in tables.blocks(found):
        blocks.append(block)
        part = {"part": block.text, "heading": ""}.get(block.kind, part)
        outside = block.kind == "table" and block.rows[0][0].startswith("tokens until") and sentences.mark_outside(block.rows, chosen)
        words = sentences.of_block(block, found, part)
        if words:
            blocks.append(tables.Block("text", words))
        if outside:
            blocks.append(tables.Block("note", "†: outside the training tokens of the data, so an extrapolation"))
        if block.kind == "heading":
            blocks += [pictures[name] for name, begin in PRINTED.items() if block.text.startswith(begin) and name in pictures]
    return blocks, missing


def compared_of(cubes, by, bits, out):
    """The runs of all cubes side by side, as the page shows them. ValueError: no cube has the column, or there are no numbers."""
    cube, caption = files.join(list(cubes.values())), figures.compared.caption
    figure = figures.compared(cube, by, bits)
    style.store(figure, out, "compared")
    return picture(figure, "compared", f"{caption.title}: {by.replace('_', ' ')}", caption.shows, summary.models_text(cube), bars_of(caption, answer.replicated(cube)))


def together(tables):
    """One table of the rows of all, each once; None without any."""
    tables = [table for table in tables if table]
    rows = [list(row) for row in dict.fromkeys(tuple(row) for table in tables for row in table.rows)]
    return summary.Table(tables[0].head, rows, tables[0].caption, note=tables[0].note) if tables else None


def claims_of(cubes, bits):
    """The table of the claims that the cubes can speak to."""
    cube = files.join(list(cubes.values())) if len(cubes) > 1 else next(iter(cubes.values()))
    found = claims(files.select(cube, bits=bits) if bits else cube)
    rows = [[row["name"], f"{row['claim']} ({row['place']})", row["estimand"], str(row["n"]), summary.number(row["estimate"], ".3g"),
             row["reason"] or f"{row['low']:.3g} to {row['high']:.3g}, over {row['interval over']}", f"{row['points']}, {row['left out']} left out",
             row["rule"], row["verdict"], row["figure"]]
            for row in found.to_dict("records") if not row["reason"].startswith("not measured")]
    missing = "; ".join(f"{name} {reason.removeprefix('not measured: ')}" for name, reason in zip(found.name, found.reason)
                        if reason.startswith("not measured"))
    return summary.Table(["name", "claim", "estimand", "runs", "estimate", "95 %", "errors", "supported if", "verdict", "figure"], rows,
                         note="Errors left out are those of cells that cannot be told from zero." + "".join(
                             f" Left out: {count} {reason}." for reason, count in found.attrs["left_out"].items()) + (f" Not measured here: {missing}." if missing else ""))


def write_page(context, path):
    """Fills report.html, which stands beside this file."""
    environment = jinja2.Environment(loader=jinja2.PackageLoader("qtraj", "report"), autoescape=True, undefined=jinja2.StrictUndefined)
    path.write_text(environment.get_template("report.html").render(context), encoding="utf-8")


def write(cubes: dict, out: pathlib.Path, bits: "Sequence[int] | None" = None, fit_bits: "Sequence[int] | None" = None, title: str = "",
          draws: int = 400, coming: "summary.Table | None" = None, compared: "dict | None" = None) -> pathlib.Path:
    """Writes report.html and the figures into the folder `out`; returns the page's path.

    cubes: opened cubes by their paths. bits: the bit-widths that are shown, fit_bits those of the fits (None: those that are shown);
    draws: of each bootstrap; coming: what the rest of runs will cost (summary.of_coming); compared: of compared_of()."""
    numbers = range(1, len(cubes) + 1) if len(cubes) > 1 else [0]
    with contextlib.redirect_stdout(sys.stderr):
        parts = [part_of_page(path, cube, bits, out, n) for (path, cube), n in zip(cubes.items(), numbers)]
        models = {str(name) for cube in cubes.values() for name in cube.model.values}
        claimed = claims_of(cubes, files.widths(next(iter(cubes.values())), bits) if bits else None)
        fitted, unfitted = fits_of(cubes, models, fit_bits or bits, draws, out)
    missing = [text for part in parts for text in ([f"{part['file']}: {m}" for m in part["missing"]] if len(parts) > 1 else part["missing"])]
    title = title or ", ".join(dict.fromkeys(part["title"] for part in parts)) + ": quantization along training"
    page = out / "report.html"
    inputs, weights = (together([part[name] for part in parts]) for name in ("inputs", "weights"))
    write_page({"title": title, "cubes": parts, "inputs": inputs, "weights": weights, "claims": claimed, "coming": coming, "compared": compared, "fits": fitted, "missing": missing + unfitted}, page)
    return page
