"""Opens a results cube and orders its checkpoints; used by every figure."""

import fnmatch
from dataclasses import dataclass

import numpy as np
import xarray as xr


def open_cube(path):
    """Reads the whole cube (it is small) and closes it, so that a running sweep may replace the file."""
    with xr.open_dataset(path, engine="h5netcdf") as cube:
        return cube.load()


def open_group(cube, name):
    """A group of the cube's file as a data frame of its rows; None if it is not there or empty."""
    try:
        with xr.open_dataset(cube.encoding["source"], engine="h5netcdf", group=name) as group:
            return group.load() if all(group.sizes.values()) else None
    except OSError:  # the cube of an earlier version
        return None


def with_replicates(cells, value, error):
    """Uncertainty of a variable of cells by text and calibration together: √(error² + deviation over replicates²), NaN
    without a deviation. None: the cube has no replicates."""
    name = f"{value}_replicate_std"
    return np.hypot(cells[error], cells[name]) if name in cells and np.isfinite(cells[name]).any() else None


def choose_models(cube, patterns):
    """The cube with only the models whose names match one of the shell patterns."""
    names = [str(name) for name in cube.model.values]
    chosen = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    if not chosen:
        raise ValueError(f"no model is called {', '.join(patterns)}; there are {', '.join(names)}")
    return cube.sel(model=chosen)


@dataclass
class Trajectory:
    """The checkpoints of one model in the order of training.

    Of a branch (the cube's branch_of) parent is the trajectory that it branches from, and fork the index in it of the last
    checkpoint before the branch starts; -1: there is none.
    """

    model: str
    places: np.ndarray  # indices along the cube's checkpoint axis
    at: np.ndarray  # progress of training, see progress()
    learning_rate: np.ndarray
    parent: "Trajectory | None" = None
    fork: int = -1
    number: int = 0  # among the branches and averages that share a panel, from 1; of a trajectory that is neither 0
    average: str = ""  # entry of the sweep's `averages`, whose averages these are; parent is the model's trajectory

    def own(self, values):
        """values: one number per (model, checkpoint). Returns those of this trajectory."""
        return values.sel(model=self.model).values[self.places]

    def curve(self, values):
        """Returns the progress and the values of this trajectory; a branch starts with its fork point on the parent."""
        x, y = self.at, self.own(values)
        if self.fork < 0:
            return x, y
        fork = values.sel(model=self.parent.model).values[self.parent.places[self.fork]]
        return np.append(self.parent.at[self.fork], x), np.append(fork, y)


def progress(cube):
    """Progress of training at each checkpoint, and its axis label: training tokens, steps, or the index in the
    table, whichever is the first that all models have."""
    for name, label in (("tokens", "Training tokens"), ("step", "Training steps")):
        if np.isfinite(cube[name]).any("checkpoint").all():
            return cube[name], label
    return (cube.checkpoint + 0 * cube.tokens.fillna(0)).transpose("model", "checkpoint"), "Checkpoint"


def parents_first(cube):
    """Pairs of a model and what it branches from (None: nothing that is in the cube), that one before its branches."""
    names = [str(name) for name in cube.model.values]
    of = [str(name) for name in cube.branch_of.values] if "branch_of" in cube.variables else [""] * len(names)
    parent = {name: other if other in names else None for name, other in zip(names, of)}

    def depth(name):
        return 0 if parent[name] is None else 1 + depth(parent[name])

    return [(name, parent[name]) for name in sorted(names, key=depth)]


def averages_of(line, one, at):
    """The averages of a model, a line for each entry of `averages`; one, at: the model's part of cube and progress."""
    names = one.average.values if "average" in one.variables else np.full(len(at), "")
    for name in dict.fromkeys(str(n) for n in names if n):
        places = np.flatnonzero((names == name) & np.isfinite(at))
        places = places[np.argsort(at[places], kind="stable")]
        if len(places):
            yield Trajectory(line.model, places, at[places], one.learning_rate.values[places], line, average=name)


def trajectories(cube, averages=False):
    """Every trajectory of the cube, parents before their branches; averages too if asked for, after their model."""
    found, lines = {}, []
    everywhere, _ = progress(cube)
    for model, parent in parents_first(cube):
        one = cube.sel(model=model)
        at = everywhere.sel(model=model).values.astype(float)
        places = np.argsort(at, kind="stable")
        stored = np.isfinite(at) & (one.kind.values == "stored")  # neither padding nor an average
        places = places[stored[places]]
        if len(places) == 0:
            continue
        line = Trajectory(str(model), places, at[places], one.learning_rate.values[places])
        if parent in found:
            line.parent = found[parent]
            line.fork = int(np.searchsorted(line.parent.at, line.at[0])) - 1
        found[line.model] = line
        lines.append(line)
        if averages:
            lines.extend(averages_of(line, one, at))
    return lines


def families(cube, averages=False):
    """Lists of trajectories that share a panel: a run followed by its branches (then the averages of all if asked for),
    in the order of the cube."""
    lines = trajectories(cube, averages)

    def root(line):
        return line if line.parent is None else root(line.parent)

    order = [str(name) for name in cube.model.values]
    roots = sorted((line for line in lines if line.parent is None), key=lambda line: order.index(line.model))
    found = [sorted((line for line in lines if root(line) is first), key=lambda line: bool(line.average)) for first in roots]
    for group in found:
        for number, line in enumerate(group):
            line.number = number
    return found


def checkpoint_labels(cube, line):
    """A short label for each checkpoint of the trajectory: its step, else its name."""
    steps = line.own(cube.step)
    if np.isfinite(steps).all():
        return [compact(step) for step in steps]
    return [str(name) for name in line.own(cube.checkpoint_name)]


def compact(number):
    """12000 as 12k."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= unit:
            return f"{number / unit:.4g}{name}"
    return f"{number:.4g}"


def widths(cube, wanted):
    """The wanted bit-widths that the cube has; all of its bit-widths if wanted is None or it has none of them."""
    there = [int(bits) for bits in cube.bits.values]
    return [bits for bits in wanted or there if bits in there] or there
