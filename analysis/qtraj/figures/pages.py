"""A figure on as many pages as it needs."""

import contextlib
from collections.abc import Callable, Sequence

import xarray as xr
from matplotlib.figure import Figure

from qtraj.cube.files import of_models, open_group, select, widths
from qtraj.cube.trajectories import families
from qtraj.figures.figure import NoNumbers
from qtraj.figures.place import TooHigh, may_be_cut

LESS = 0.5  # inches by which a cut must make a figure lower, since one that splits only its legend tells less


def halves(values):
    middle = (len(values) + 1) // 2
    return values[:middle], values[middle:]


def ways(cube, bits):
    """The ways to cut a cube in two: an axis, and pairs of a part and the texts by which titles tell it from the other. The last is by
    surface, of which loss_surface draws those that are told."""
    runs = families(cube)
    if len(runs) > 1:
        names = [[line.model for line in lines] for lines in runs]
        yield "model", [(of_models(cube, sum(half, [])), [name[0] for name in half]) for half in halves(names)]
    for axis, values, text in (("dataset", [str(name) for name in cube.dataset.values], "{}"), ("bits", widths(cube, bits), "{} bits"),
                               ("quantizer", [str(name) for name in cube.quantizer.values], "{}")):
        if len(values) > 1:
            yield axis, [(select(cube, **{axis: half}), [text.format(value) for value in half]) for half in halves(values)]
    surfaces = open_group(cube, "surfaces")
    names = told(cube).get("surface") or ([] if surfaces is None else list(dict.fromkeys(map(str, surfaces.surface.values))))
    if len(names) > 1:
        yield "surface", [(cube, half) for half in halves(names)]


def told(cube):
    """By axis, the texts that tell this part of a cube from those on other pages."""
    return cube.attrs.get("told", {})


def drawn(figure, cube, bits, width, whole=False):
    """The figure and its height in inches. None: it is higher than a page; whole: not even then."""
    before = may_be_cut.set(not whole)
    try:
        page = figure(cube, bits, width=width)
        return page, page.get_figheight()
    except TooHigh as high:
        return None, high.args[0]
    finally:
        may_be_cut.reset(before)


def cut(figure, page, high, cube, bits, width):
    """Pages of what drawn() has returned for this part of a cube."""
    if page is not None:
        return [(page, cube)]
    for axis, parts in ways(cube, bits):
        found = []
        for part, texts in parts:
            part = part.assign_attrs(told=told(cube) | {axis: texts})
            with contextlib.suppress(NoNumbers):
                found.append((*drawn(figure, part, bits, width), part))
        if found and max(of_part for _, of_part, _ in found) < high - LESS:
            return [one for half in found for one in cut(figure, *half, bits, width)]
    return [(drawn(figure, cube, bits, width, whole=True)[0], cube)]


def pages(figure: Callable, cube: xr.Dataset, bits: "Sequence[int] | None" = None, width: "float | None" = None) -> "list[tuple[Figure, xr.Dataset]]":
    """One of FIGURES, drawn so that no page is higher than place.PAGE_HIGH inches: of the whole cube, or of parts of it, by run, else by text,
    bit-width, method or surface, whichever makes it lower. Returns pairs of a page and its part of the cube. A figure that no cut makes lower
    is one page. NoNumbers: there is none."""
    return cut(figure, *drawn(figure, cube, bits, width), cube, bits, width)


def part_of(cube: xr.Dataset) -> str:
    """What a page shows of its figure; empty: all."""
    return ", ".join(text for texts in told(cube).values() for text in texts)
