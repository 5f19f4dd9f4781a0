"""Opens a results cube and orders its checkpoints; used by every figure."""

from dataclasses import dataclass

import numpy as np
import xarray as xr


def open_cube(path):
    """Reads the whole cube (it is small) and closes it, so that a running sweep may replace the file."""
    with xr.open_dataset(path, engine="h5netcdf") as cube:
        return cube.load()


@dataclass
class Trajectory:
    """The checkpoints of one model in the order of training.

    A model X-… that starts inside the training of a model X is a branch of X: parent is X's trajectory, and fork the
    index in it of the last checkpoint before the branch starts.
    """

    model: str
    places: np.ndarray  # indices along the cube's checkpoint axis
    at: np.ndarray  # progress of training, see progress()
    learning_rate: np.ndarray
    parent: "Trajectory | None" = None
    fork: int = -1

    def curve(self, values):
        """values: one number per (model, checkpoint). Returns the progress and the values of this trajectory;
        a branch starts with its fork point on the parent."""
        x, y = self.at, values.sel(model=self.model).values[self.places]
        if self.parent is None:
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


def trajectories(cube):
    """Every trajectory of the cube, parents before their branches."""
    found = {}
    everywhere, _ = progress(cube)
    for model in sorted(cube.model.values, key=len):
        one = cube.sel(model=model)
        at = everywhere.sel(model=model).values.astype(float)
        places = np.argsort(at, kind="stable")
        stored = np.isfinite(at) & (one.kind.values == "stored")  # neither padding nor an average
        places = places[stored[places]]
        if len(places) == 0:
            continue
        line = Trajectory(str(model), places, at[places], one.learning_rate.values[places])
        for name, other in found.items():
            if line.model.startswith(name + "-") and line.at[0] > other.at[0]:
                line.parent = other
                line.fork = int(np.searchsorted(other.at, line.at[0])) - 1
        found[line.model] = line
    return list(found.values())


def widths(cube, wanted):
    """The wanted bit-widths that the cube has; if it has none of them, all of its bit-widths."""
    there = [int(bits) for bits in cube.bits.values]
    return [bits for bits in wanted if bits in there] or there
