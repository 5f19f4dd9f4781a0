"""The checkpoints of a cube in the order of training: runs, their branches, and averages."""

from dataclasses import dataclass

import numpy as np
import xarray as xr


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
    phase: "np.ndarray | None" = None  # of each checkpoint; None: the cube has none
    late: int = 0  # how many of the last checkpoints say nothing of their tokens (steps): stages after training

    def own(self, values):
        """values: one number per (model, checkpoint). Returns those of this trajectory."""
        model = values.get_index("model").get_loc(self.model)  # sel would cut each coordinate as well, which takes ten times as long
        return values.values.take(model, axis=values.get_axis_num("model"))[self.places]

    def curve(self, values):
        """Returns the progress and the values of this trajectory; a branch starts with its fork point on the parent."""
        x, y = self.at, self.own(values)
        if self.fork < 0:
            return x, y
        fork = values.sel(model=self.parent.model).values[self.parent.places[self.fork]]
        return np.append(self.parent.at[self.fork], x), np.append(fork, y)


LATE = 0.06  # of the axis of training, that a checkpoint without tokens takes


def stated(cube):
    """What all models state of some checkpoints: name and label; None: neither tokens nor steps."""
    for name, label in (("tokens", "Training tokens"), ("step", "Training steps")):
        if np.isfinite(cube[name]).any("checkpoint").all():
            return name, label
    return None


def progress(cube: xr.Dataset) -> "tuple[xr.DataArray, str]":
    """Progress of training at each checkpoint, and its axis label: training tokens, steps, or the index in the
    table, whichever is the first that all models have. Checkpoints without it, as stages after training have none, stand behind the
    greatest, in the order of the table, at equal distances.

    >>> at, label = qtraj.progress(qtraj.open("one.h5"))
    >>> label, [f"{tokens:.3g}" for tokens in at.values[0]]
    ('Training tokens', ['1.33e+09', '2.67e+09', '4e+09'])
    """
    there = stated(cube)
    if there:
        at = cube[there[0]].transpose("model", "checkpoint")
        late = ~np.isfinite(at.values) & (cube.kind.transpose("model", "checkpoint").values == "stored")
        if late.any():
            greatest = float(at.max())
            at = at.copy(data=np.where(late, greatest * (1 + LATE * np.cumsum(late, axis=1)), at.values))
        return at, there[1]
    return (cube.checkpoint + 0 * cube.tokens.fillna(0)).transpose("model", "checkpoint"), "Checkpoint"


def parents_first(cube: xr.Dataset) -> "list[tuple[str, str | None]]":
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


def trajectories(cube: xr.Dataset, averages: bool = False) -> "list[Trajectory]":
    """Every trajectory of the cube, parents before their branches; averages too if asked for, after their model.

    >>> [(line.model, line.average, len(line.at)) for line in qtraj.trajectories(qtraj.open("averages.h5"), averages=True)]
    [('SmolLM3-3B', '', 6), ('SmolLM3-3B', 'lawa', 2), ('SmolLM3-3B', 'soup', 1)]
    """
    found, lines = {}, []
    everywhere, _ = progress(cube)
    there = stated(cube)
    for model, parent in parents_first(cube):
        one = cube.sel(model=model)
        at = everywhere.sel(model=model).values.astype(float)
        places = np.argsort(at, kind="stable")
        stored = np.isfinite(at) & (one.kind.values == "stored")  # neither padding nor an average
        places = places[stored[places]]
        if len(places) == 0:
            continue
        line = Trajectory(str(model), places, at[places], one.learning_rate.values[places])
        line.phase = one.phase.values[places].astype(str) if "phase" in one.variables else None
        line.late = int((~np.isfinite(one[there[0]].values[places])).sum()) if there else 0
        if parent in found:
            line.parent = found[parent]
            line.fork = int(np.searchsorted(line.parent.at, line.at[0])) - 1
        found[line.model] = line
        lines.append(line)
        if averages:
            lines.extend(averages_of(line, one, at))
    return lines


def families(cube: xr.Dataset, averages: bool = False) -> "list[list[Trajectory]]":
    """Lists of trajectories that share a panel: a run followed by its branches (then the averages of all if asked for),
    in the order of the cube.

    >>> [[line.model for line in lines] for lines in qtraj.families(qtraj.open("two_models.h5"))]
    [['SmolLM3-3B', 'cooldown of it', 'SmolLM3-3B-soup-ingredient-2'], ['OLMo2-7B']]
    """
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


def checkpoint_labels(cube: xr.Dataset, line: Trajectory) -> "list[str]":
    """A short label for each checkpoint of the trajectory: its step, with digits enough to tell it from all others of the cube, else its
    name."""
    steps = line.own(cube.step)
    if np.isfinite(steps).all():
        every = np.unique(cube.step.values[np.isfinite(cube.step.values)])
        digits = next((n for n in range(4, 12) if len({compact(step, n) for step in every}) == len(every)), 12)
        return [compact(step, digits) for step in steps]
    return [str(name) for name in line.own(cube.checkpoint_name)]


def compact(number: float, digits: int = 4) -> str:
    """A number with the letter of its thousands.

    >>> from qtraj.cube.trajectories import compact
    >>> compact(12000), compact(8.1e8), compact(3e-4), compact(3e-5)
    ('12k', '810M', '0.0003', '3e-5')
    >>> compact(471503), compact(471503, 6)
    ('471.5k', '471.503k')
    """
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= unit:
            return f"{number / unit:.{digits}g}{name}"
    return f"{number:.{digits}g}".replace("e-0", "e-")
