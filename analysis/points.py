"""The points that laws are fitted to: one row per finished cell and text of any number of cubes, or of a table of
published numbers (CSV)."""

import numpy as np
import pandas

from cube import open_cube

COLUMNS = {
    "model": "the training run", "checkpoint": "its name", "quantizer": "label of the method", "dataset": "text",
    "parameters": "N, without embeddings", "tokens": "D, training tokens", "bits": "P", "learning_rate": "at the checkpoint",
    "loss": "full precision, nats a token", "delta": "added loss, nats a token", "delta_stderr": "its standard error",
    "relative": "delta / loss", "sharpness": "of the full-precision loss", "trace": "of its Hessian",
    "distance": "norm of the change of the weights",
}
NEEDED = ("model", "parameters", "tokens", "bits", "delta")


def variable(cube, name, like):
    """A variable of the cube on the axes of `like`, NaN where the cube has none."""
    return (cube[name] if name in cube else np.nan * like.fillna(0)).broadcast_like(like)


def of_cube(path):
    cube = open_cube(path)
    like = cube.loss_delta
    frame = pandas.DataFrame({
        "parameters": variable(cube, "parameters_non_embedding", like).values.ravel(),
        "tokens": variable(cube, "tokens", like).values.ravel(),
        "learning_rate": variable(cube, "learning_rate", like).values.ravel(),
        "loss": variable(cube, "baseline_loss", like).values.ravel(),
        "delta": like.values.ravel(),
        "delta_stderr": variable(cube, "loss_delta_stderr", like).values.ravel(),
        "relative": variable(cube, "loss_relative", like).values.ravel(),
        "sharpness": variable(cube, "sharpness", like).values.ravel(),
        "trace": variable(cube, "trace", like).values.ravel(),
        "distance": variable(cube, "weight_distance", like).values.ravel(),
    })
    for axis in ("model", "bits", "quantizer", "dataset"):
        frame[axis] = cube[axis].broadcast_like(like).values.ravel()
    frame["checkpoint"] = cube.checkpoint_name.broadcast_like(like).values.ravel()
    return frame


def read(paths):
    """All points of cubes (.h5) and tables (.csv), those without a number for the added loss left out. ValueError: a
    table lacks a column."""
    frames = []
    for path in map(str, paths):
        frame = pandas.read_csv(path, comment="#") if path.endswith(".csv") else of_cube(path)
        missing = [name for name in NEEDED if name not in frame]
        if missing:
            raise ValueError(f"{path}: no column {', '.join(missing)}; a table of points has {', '.join(NEEDED)} and may "
                             f"have {', '.join(name for name in COLUMNS if name not in NEEDED)}")
        frames.append(frame)
    points = pandas.concat(frames, ignore_index=True)
    for name in COLUMNS:
        if name not in points:
            points[name] = "" if name in ("checkpoint", "quantizer", "dataset") else np.nan
    return points[np.isfinite(points.delta)].reset_index(drop=True)
