"""Where a figure is drawn: the sizes of a journal's column and page, panels that fit them, titles, labels, and the legend below."""

import contextlib
import contextvars
import functools
import textwrap

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from qtraj.figures import style

COLUMN, PAGE = 3.3, 6.8  # inches
PAGE_HIGH = 8.5  # inches of a page that a figure may take
HIGH = 7.6  # of these for panels, with room for a legend
NARROW, LOW = 1.6, 0.75  # inches that a panel's width, and share that its height may be reduced to where the page is too short
LETTER = 0.062  # inches, of the legend's type
may_be_cut = contextvars.ContextVar("may_be_cut", default=False)  # a figure that is higher than a page is not finished


class TooHigh(Exception):
    """The figure would be args[0] inches high, more than a page."""


@contextlib.contextmanager
def measured_once(figure):
    """While nothing moves, panels are measured once: tight_layout asks twice where it lays out a part of the figure."""
    for axes in figure.axes:
        axes.get_tightbbox = functools.lru_cache(maxsize=None)(axes.get_tightbbox)
    try:
        yield
    finally:
        for axes in figure.axes:
            del axes.get_tightbbox


class Place:
    """The axes `ax` of the caller, which take one panel, or a new figure, `width` inches wide (None: a column where one panel beside
    the other fits into it, else a page). told: what titles name even if all panels share it (pages.py)."""

    def __init__(self, ax=None, width=None, told=()):
        self.ax, self.width, self.told = ax, width, list(told)
        self.figure = None if ax is None else ax.figure
        self.all, self.rates, self.names = [], {}, {}

    def grid(self, rows, columns, width=2.2, height=1.75):
        """The figure and rows × columns panels, each at least so many inches wide, and so high. A row that is wider than the figure
        goes on below. Panels become lower, then those that do not need a column narrower, where a page is too short for them."""
        if self.ax is not None:
            if rows * columns > 1:
                raise ValueError(f"the figure has {rows * columns} panels, ax takes one: select a run, a text, a bit-width (qtraj.select)")
            self.all = [self.ax]
            return self.figure, np.array([[self.ax]])
        whole = self.width or (COLUMN if columns * width <= COLUMN + 0.1 else PAGE)
        least = min(width, NARROW) if width < COLUMN else width
        for across in range(max(1, int((whole + 0.1) / width)), max(1, int((whole + 0.1) / least)) + 1):
            lines = -(-columns // across)
            if rows * lines * LOW * height <= HIGH:
                break
        height = max(LOW * height, min(height, HIGH / (rows * lines)))
        across = -(-columns // lines)
        self.figure = Figure(figsize=(whole, height * rows * lines))
        FigureCanvasAgg(self.figure)
        panels = self.figure.subplots(rows * lines, across, squeeze=False).reshape(rows, lines * across)
        for axes in panels[:, columns:].flat:
            axes.remove()
        self.all = list(panels[:, :columns].flat)
        for axes in self.all:  # also ticks that are made later, by whoever shows the figure
            axes.tick_params(labelsize=style.LOOK["xtick.labelsize"])
        return self.figure, panels[:, :columns]

    def panels(self, n, width=2.2, height=1.75):
        """The figure and n panels, each at least so many inches wide, and so high."""
        figure, panels = self.grid(1, n, width, height)
        return figure, list(panels.flat)

    def leave_out(self, axes):
        """Removes a panel without numbers."""
        self.all.remove(axes)
        axes.remove()

    def title(self, axes, *parts):
        """What the panel shows. Parts that all panels share are left to the caption, but for bit-widths and what self.told names."""
        self.names[axes] = [str(part) for part in parts if part]

    def rate(self, axes, right):
        """The axis of the learning rate behind a panel: it keeps its numbers where no other panel stands at its right."""
        self.rates[axes] = right
        style.scale_rates([right])

    def neighbours(self, axes):
        """Panels at the left, at the right and below."""
        spec = {one: one.get_subplotspec().get_topmost_subplotspec() for one in self.all}
        row, column = spec[axes].rowspan.start, spec[axes].colspan.start
        same = [one for one in self.all if spec[one].rowspan.start == row]
        return ([one for one in same if spec[one].colspan.start < column], [one for one in same if spec[one].colspan.start > column],
                [one for one in self.all if spec[one].colspan.start == column and spec[one].rowspan.start > row])

    def tidy(self):
        """Labels stand once a row and once a column."""
        axis = {axes: (axes.get_xlabel(), axes.get_ylabel()) for axes in self.all}
        for axes in self.all:
            left, right, below = self.neighbours(axes)
            if axes in self.rates and not any(one in self.rates for one in left):
                style.scale_rates([self.rates[one] for one in [axes, *right] if one in self.rates])
            if any(axis[one][1] == axis[axes][1] for one in left):
                axes.set_ylabel("")
            if below and axis[below[0]][0] == axis[axes][0]:
                axes.set_xlabel("")
            if axes in self.rates and any(one in self.rates for one in right):
                self.rates[axes].tick_params(labelright=False, right=False)
                self.rates[axes].spines["right"].set_visible(False)
                self.rates[axes].set_ylabel("")

    def write_titles(self):
        parts = list(self.names.values())
        most = max(map(len, parts), default=0)
        parts = [one + [""] * (most - len(one)) for one in parts]
        differ = {i for i in range(most) if len({one[i] for one in parts}) > 1} or set(range(most))
        differ |= {i for i in range(most) if parts[0][i] in self.told or parts[0][i].endswith(" bits")}
        for axes, one in zip(self.names, parts):
            style.title(axes, *(one[i] for i in sorted(differ)))

    def wrap_labels(self):
        """Labels that are longer than their axis will be, above which titles have no room yet, take two lines or more."""
        renderer = self.figure.canvas.get_renderer()
        above = max((axes.title.get_window_extent(renderer).height for axes in self.all), default=0)
        for axes in self.figure.axes:
            box = axes.get_window_extent(renderer)
            for label, room, size in ((axes.xaxis.label, box.width, "width"), (axes.yaxis.label, box.height - above, "height")):
                text = label.get_text()
                long = getattr(label.get_window_extent(renderer), size) if text else 0
                if long > 1.08 * room and " " in text:
                    label.set_text(textwrap.fill(text, max(8, int(1.05 * len(text) * room / long)), break_long_words=False, break_on_hyphens=False))
                    label.set(multialignment="center")

    def legend(self, handles):
        """In as many columns as the figure is wide enough for; long names take several lines. Returns its height in inches."""
        figure, renderer = self.figure, self.figure.canvas.get_renderer()
        for handle in handles:
            handle.set_label(textwrap.fill(handle.get_label(), max(12, int((figure.get_figwidth() - 0.6) / LETTER)), break_long_words=True))
        for columns in range(len(handles), 0, -1):
            box = figure.legend(handles=handles, loc="lower center", ncol=columns, columnspacing=1.2, handletextpad=0.5)
            extent = box.get_window_extent(renderer)
            if extent.width <= 0.99 * figure.bbox.width or columns == 1:
                return extent.height / figure.dpi + 0.1
            box.remove()
        return 0.0

    def lay_out(self, rect):
        with measured_once(self.figure):
            self.figure.tight_layout(rect=rect, pad=0.4, w_pad=0.8, h_pad=0.8)

    def numbers(self):
        """Where every axis has its numbers."""
        return [tuple(axis.get_majorticklocs()) for axes in self.figure.axes for axis in (axes.xaxis, axes.yaxis)]

    def finish(self, handles):
        """Lays the panels out, with the legend below them. Returns the figure. TooHigh: of part of a figure that pages.py may cut."""
        figure = self.figure
        if self.ax is not None:
            self.write_titles()
            if handles:
                self.ax.legend(handles=handles, fontsize="x-small", frameon=True, framealpha=0.8)
            return figure
        self.tidy()
        shown, figure.dpi = figure.dpi, style.LOOK["savefig.dpi"]  # type is rounded to pixels: what fits on the screen may not fit in the file
        below = self.legend(handles)
        figure.set_figheight(figure.get_figheight() + below)
        if may_be_cut.get() and figure.get_figheight() > PAGE_HIGH:
            raise TooHigh(figure.get_figheight())
        rect = (0, below / figure.get_figheight(), 1, 1)
        self.lay_out(rect)
        self.write_titles()
        self.wrap_labels()
        before = self.numbers()
        self.lay_out(rect)
        if self.numbers() != before:  # they change with the length of their axis
            self.lay_out(rect)
        renderer = figure.canvas.get_renderer()
        least = min(axes.yaxis.get_tightbbox(renderer).x0 for axes in self.all)
        if least < 0:
            figure.subplots_adjust(left=figure.subplotpars.left + (2 - least) / figure.bbox.width)
        figure.dpi = shown
        return figure
