"""What claims are measured on: for each run its checkpoints in order, with the errors of all cells."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas
import xarray as xr

from qtraj.cube.activations import FULL
from qtraj.cube.activations import NAMES as WIDTHS
from qtraj.cube.points import complete, of_cube, once
from qtraj.cube.trajectories import Trajectory, families
from qtraj.laws.dynamics import AT_PEAK, ENDED, with_dynamics
from qtraj.laws.fit import uncertainty

IMITATIONS = ("noise", "permuted", "flipped")  # methods that are changes for comparison


@dataclass
class Run:
    """A training run with its branches: a row a checkpoint in the order of tokens, a column a cell (method, width, text)."""

    name: str
    model: np.ndarray
    tokens: np.ndarray
    peak: float
    constant: np.ndarray  # whether the learning rate is at its peak
    decaying: np.ndarray  # whether it is below it
    ended: np.ndarray  # whether it is a tenth of it or less, as where a decay ends
    parameters: float
    cells: "list[tuple]"
    widths: "list[tuple]"  # of each cell's inputs of linears, keys and values; 16: as they are
    error: np.ndarray  # relative error, of either sign; NaN: not measured
    noise: np.ndarray  # its standard error over the text (and calibration, where there are replicates); NaN: unknown
    loss: np.ndarray  # of full precision, by cell
    measured: "dict[str, np.ndarray]"  # trace, sharpness, outliers, and, by cell, distance

    def line(self, model):
        """The rows of a model."""
        return np.flatnonzero(self.model == model)


@dataclass
class Data:
    runs: "list[Run]"
    cube: "xr.Dataset | None" = None
    name_of: "dict[str, str]" = field(default_factory=dict)  # in runs, of models of the cube; they have their own where it is not here
    twice: int = 0  # points that were left out, since an earlier file has them too

    def families(self, averages: bool = False) -> "Iterator[list[list[Trajectory]]]":
        """Of each run its families in the cube: one for each file that has some of it."""
        found, run_of = {}, {str(model): run.name for run in self.runs for model in run.model}
        for group in families(self.cube, averages):
            name = self.name_of.get(group[0].model, group[0].model)
            found.setdefault(run_of.get(name, name), []).append(group)
        yield from found.values()

    def methods(self) -> "list[str]":
        """Methods that quantize, in order."""
        return sorted({cell[0] for run in self.runs for cell in run.cells if not cell[0].startswith(IMITATIONS)})


def run_of(name, part):
    """A Run of the points of one family."""
    rows, cells = part.groupby(["tokens", "model"]), part.groupby(["quantizer", "bits", "dataset"])
    at, first = (rows.ngroup().to_numpy(), cells.ngroup().to_numpy()), rows.first()

    def table(values):
        out = np.full((rows.ngroups, cells.ngroups), np.nan)
        out[at] = values.to_numpy(float)
        return out

    tokens, model = (first.index.get_level_values(column).to_numpy() for column in ("tokens", "model"))
    rate, peak = first.learning_rate.to_numpy(float), float(first.peak_rate.max())
    warm = (first.phase != "warmup").to_numpy()
    return Run(name, model.astype(str), tokens.astype(float), peak, warm & (rate >= AT_PEAK * peak),
               warm & (rate < AT_PEAK * peak) & (first.decay_tokens.to_numpy(float) < tokens),  # below the peak, and after it
               rate <= ENDED * peak,
               float(first.parameters.iloc[0]), [cell for cell, _ in cells], [widths_of(of) for _, of in cells], table(part.relative),
               table((uncertainty(part) / part.loss).where(part.delta_stderr.notna())), table(part.loss),
               {"trace": first.trace.to_numpy(float), "sharpness": first.sharpness.to_numpy(float), "distance": table(part.distance), "outliers": first.outliers.to_numpy(float)})


def widths_of(cell):
    """What the points of a cell, or of a cube that knows of no such thing, say."""
    return tuple(int(cell[name].iloc[0]) for name in WIDTHS)


def data_of(points: pandas.DataFrame, cube: "xr.Dataset | None" = None) -> Data:
    """The runs of points (qtraj.points) that have tokens, and the cube, for its averages and columns."""
    points = points.assign(**{name: points.get(name, FULL) for name in WIDTHS}, outliers=points.get("outliers", np.nan)).fillna(dict.fromkeys(WIDTHS, FULL))
    points = with_dynamics(points[(points.tokens > 0) & np.isfinite(points.delta)])
    return Data([run_of(str(name), part) for name, part in points.groupby("family", sort=False)], cube)


def from_cube(cube: xr.Dataset) -> Data:
    """The data of an opened cube, in which each run counts once however many of its files have it (cube.points.once)."""
    points, twice, name_of = once(complete(of_cube(cube)[0]))
    data = data_of(points, cube)
    data.name_of, data.twice = name_of, twice
    return data
