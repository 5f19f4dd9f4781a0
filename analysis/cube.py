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

    A model X-… that starts inside the tokens of a model X is a branch of it: parent is X's trajectory, and fork the
    place in it of the last checkpoint before the branch's first.
    """

    model: str
    places: np.ndarray  # indices along the cube's checkpoint axis
    tokens: np.ndarray
    learning_rate: np.ndarray
    parent: "Trajectory | None" = None
    fork: int = -1

    def curve(self, values):
        """values: one number a checkpoint of every model, by (model, checkpoint). Returns tokens and values of this
        trajectory; a branch begins with the fork, where it left its parent."""
        x, y = self.tokens, values.sel(model=self.model).values[self.places]
        if self.parent is None:
            return x, y
        fork = values.sel(model=self.parent.model).values[self.parent.places[self.fork]]
        return np.append(self.parent.tokens[self.fork], x), np.append(fork, y)


def trajectories(cube):
    """Every trajectory of the cube; parents stand before their branches."""
    found = {}
    for model in sorted(cube.model.values, key=len):
        one = cube.sel(model=model)
        tokens = one.tokens.values
        places = np.argsort(tokens, kind="stable")
        stored = np.isfinite(tokens) & (one.kind.values == "stored")  # neither padding nor an average
        places = places[stored[places]]
        if len(places) == 0:
            continue
        line = Trajectory(str(model), places, tokens[places], one.learning_rate.values[places])
        for name, other in found.items():
            if line.model.startswith(name + "-") and line.tokens[0] > other.tokens[0]:
                line.parent = other
                line.fork = int(np.searchsorted(other.tokens, line.tokens[0])) - 1
        found[line.model] = line
    return list(found.values())


def widths(cube, wanted):
    """The bit-widths of wanted that the cube has; all that it has if it has none of them."""
    there = [int(bits) for bits in cube.bits.values]
    return [bits for bits in wanted if bits in there] or there
