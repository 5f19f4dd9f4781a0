"""What a figure is: a function that draws the numbers of a cube, or of fits, with its caption and what it needs."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
import pandas
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qtraj.figures import style
from qtraj.figures.place import Place

PAIRED = "one standard error over the text's sequences, paired: both models are scored on the same sequences"
REPLICATED = ("; where the sweep has replicates, thin lines without caps add the standard deviation over calibration text, "
              "√(error² + deviation²)")
OF_ITEMS = "one standard error over the tasks' items, paired: both models answer the same items; the tasks themselves are given"
NONE = "there are none"
AXES = ("model", "checkpoint", "bits", "quantizer", "dataset")

OF_CUBE = """

    cube: of qtraj.open, or a part of it (qtraj.select). bits: the bit-widths that are shown, None for all. ax: draws the figure's
    only panel there; ValueError if it has several. width: of the whole figure in inches, such as 3.3 for a column of a journal;
    None: a column, or a page (6.8) where the panels need one. NoNumbers: the cube does not have {needs}, or of one point only.
    """
OF_FITS = """

    found: of qtraj.laws.fit_all, fitted to these points. ax and width are as in the figures of a cube. NoNumbers: there are too few
    points for this fit.
    """


class NoNumbers(ValueError):
    """The cube, or the fits, do not have what the figure shows, or it would have a single point."""


def enough(wanted: Sequence, count: Callable) -> list:
    """The panels of `wanted` that have two points or more, as count(panel) says. NoNumbers: all that there is, is one."""
    counts = [count(one) for one in wanted]
    if max(counts, default=0) == 1:
        raise NoNumbers("it would have a single point")
    return [one for one, points in zip(wanted, counts) if points > 1]


def points_of(lines: "Sequence", values: xr.DataArray) -> int:
    """Checkpoints of the lines at which some of the values, by (model, checkpoint, ...), is known."""
    known = np.isfinite(values)
    known = known.any([axis for axis in known.dims if axis not in ("model", "checkpoint")])
    return sum(int(line.own(known).sum()) for line in lines)


@dataclass(frozen=True)
class Caption:
    title: str
    shows: str
    bars: str  # what the error bars are
    scored: str = ""  # which tokens its numbers are of: those of "evaluation", "curvature", "calibration" or "surfaces"; "tasks": items too; "weights": of none
    needs: str = ""  # what the sweep must have for it


def drawn(draw, place, message, data):
    """The figure that draw(*data, place) makes. message: what is missing if it makes none."""
    with matplotlib.rc_context(style.LOOK):
        figure = draw(*data, place)
    if figure is None:
        raise NoNumbers(message)
    return figure


def named_like(draw, function, more):
    """The function with the name, module and documentation of the one that draws."""
    functools.update_wrapper(function, draw, assigned=("__module__", "__name__", "__qualname__"))
    del function.__wrapped__
    function.__doc__ = inspect.cleandoc(draw.__doc__) + inspect.cleandoc(more).join(("\n\n", "\n"))
    return function


def figure_of_cube(title: str, shows: str, bars: str, scored: str, needs: str, lacks: Callable = lambda cube: "") -> Callable:
    """Makes draw(cube, bits, place), which returns None where there are no numbers, a public function with a caption. lacks(cube): in words,
    what the figure leaves out; an empty text: nothing."""

    def describe(draw):
        def figure(cube: xr.Dataset, bits: "Sequence[int] | None" = None, ax: "Axes | None" = None, width: "float | None" = None) -> Figure:
            lost = [name for name in AXES if name not in cube.dims]
            if lost:
                raise ValueError(f"the cube has no axis {lost[0]} any more; qtraj.select keeps the axes")
            return drawn(draw, Place(ax, width, sum(cube.attrs.get("told", {}).values(), [])), f"the cube has no {needs}", (cube, bits))

        figure.caption = Caption(title, shows, bars, scored, needs)
        figure.lacks = lacks
        return named_like(draw, figure, OF_CUBE.format(needs=needs))

    return describe


def figure_of_fits(title: str, shows: str, bars: str) -> Callable:
    """Makes draw(found, points, place) a public function with a caption."""

    def describe(draw):
        def figure(found: dict, points: pandas.DataFrame, ax: "Axes | None" = None, width: "float | None" = None) -> Figure:
            return drawn(draw, Place(ax, width), "the points are too few for this fit", (found, points))

        figure.caption = Caption(title, shows, bars)
        return named_like(draw, figure, OF_FITS)

    return describe
