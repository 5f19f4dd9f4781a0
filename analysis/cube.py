"""Opens a results cube and puts its checkpoints in order: what every figure starts from."""

from dataclasses import dataclass

import numpy as np
import xarray as xr


def open_cube(path):
    """The cube, read whole (it is small) and closed again, so that a run may go on replacing the file."""
    with xr.open_dataset(path, engine="h5netcdf") as cube:
        return cube.load()


@dataclass
class Trajectory:
    """The checkpoints of one model in the order of training.

    A model X-… that starts inside the training of a model X is a branch of it: parent is X's trajectory, and fork the
    place in it of the last checkpoint before the branch's first.
    """

    model: str
    places: np.ndarray  # indices along the cube's checkpoint axis
    at: np.ndarray  # how far training was, as `progress` has it
    learning_rate: np.ndarray
    parent: "Trajectory | None" = None
    fork: int = -1

    def curve(self, values):
        """values: one number a checkpoint of every model, by (model, checkpoint). Returns progress and values of
        this trajectory; a branch begins with the fork, where it left its parent."""
        x, y = self.at, values.sel(model=self.model).values[self.places]
        if self.parent is None:
            return x, y
        fork = values.sel(model=self.parent.model).values[self.parent.places[self.fork]]
        return np.append(self.parent.at[self.fork], x), np.append(fork, y)


def progress(cube):
    """How far training was at each checkpoint, and what that is called: training tokens, else steps, else the place in
    the table, the first that the table of every model has."""
    for name, label in (("tokens", "Training tokens"), ("step", "Training steps")):
        if np.isfinite(cube[name]).any("checkpoint").all():
            return cube[name], label
    return (cube.checkpoint + 0 * cube.tokens.fillna(0)).transpose("model", "checkpoint"), "Checkpoint"


def trajectories(cube):
    """Every trajectory of the cube; parents stand before their branches."""
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
    """The bit-widths of wanted that the cube has; all that it has if it has none of them."""
    there = [int(bits) for bits in cube.bits.values]
    return [bits for bits in wanted if bits in there] or there
