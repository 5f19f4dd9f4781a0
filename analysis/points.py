"""The points that laws are fitted to: one row per finished cell and text of any number of cubes, or of a table of
published numbers (CSV)."""

import numpy as np
import pandas

from cube import open_cube, parents_first

COLUMNS = {
    "model": "the training run", "family": "the run that it branches from, else itself", "checkpoint": "its name",
    "phase": "of training", "quantizer": "label of the method", "dataset": "text", "parameters": "N, without embeddings",
    "tokens": "D, training tokens", "bits": "P", "learning_rate": "at the checkpoint", "loss": "full precision, nats a token",
    "delta": "added loss, nats a token", "delta_stderr": "its standard error over the text",
    "delta_deviation": "its standard deviation over replicates", "relative": "delta / loss",
    "sharpness": "of the full-precision loss", "trace": "of its Hessian", "distance": "norm of the change of the weights",
}
NEEDED = ("model", "parameters", "tokens", "bits", "delta")
TEXTS = ("model", "family", "checkpoint", "phase", "quantizer", "dataset")
KEY = ["model", "checkpoint", "tokens", "quantizer", "bits", "dataset"]


def variable(cube, name, like):
    """A variable of the cube on the axes of `like`, NaN where the cube has none."""
    return (cube[name] if name in cube.variables else np.nan * like.fillna(0)).broadcast_like(like)


def roots(cube):
    """The training run that each model of the cube is a branch of, over any number of branches; else itself."""
    root = {}
    for model, parent in parents_first(cube):
        root[model] = root[parent] if parent else model
    return root


def of_cube(path):
    """The points of a cube, and what is left out of them by reason."""
    try:
        cube = open_cube(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not a results cube that can be read: {error}") from None
    if "loss_delta" not in cube:
        raise ValueError(f"{path}: it has no loss_delta, so it is not a results cube of qtraj")
    like = cube.loss_delta
    source = {"parameters": "parameters_non_embedding", "tokens": "tokens", "learning_rate": "learning_rate",
              "loss": "baseline_loss", "delta": "loss_delta", "delta_stderr": "loss_delta_stderr",
              "delta_deviation": "loss_delta_replicate_std", "relative": "loss_relative",
              "sharpness": "sharpness", "trace": "trace", "distance": "weight_distance", "status": "status", "kind": "kind",
              "phase": "phase", "checkpoint": "checkpoint_name", "model": "model", "bits": "bits", "quantizer": "quantizer",
              "dataset": "dataset"}
    # Every variable in the order of the axes of `like`.
    frame = pandas.DataFrame({column: variable(cube, name, like).transpose(*like.dims).values.ravel()
                              for column, name in source.items()})
    frame["family"] = frame.model.map(roots(cube))
    average = frame.kind == "average"
    diverged = ~average & (frame.status == 1) & ~np.isfinite(frame.delta)
    dropped = {"averages of checkpoints, which are no place of their own in training": int((average & np.isfinite(frame.delta)).sum()),
               "points whose loss is not finite": int(diverged.sum())}
    return frame[~average & np.isfinite(frame.delta)].drop(columns=["status", "kind"]), dropped


def of_table(path):
    """The points of a CSV file, '#' beginning a comment, and what is left out of them by reason."""
    try:
        frame = pandas.read_csv(path, comment="#", skipinitialspace=True)
    except ValueError as error:  # what pandas raises for bad text
        raise ValueError(f"{path}: not a table: {error}") from None
    missing = [name for name in NEEDED if name not in frame]
    if missing:
        raise ValueError(f"{path}: no column {', '.join(missing)}; a table of points has {', '.join(NEEDED)} and may "
                         f"have {', '.join(name for name in COLUMNS if name not in NEEDED)}")
    for name in (name for name in COLUMNS if name in frame):
        if name in TEXTS:
            frame[name] = frame[name].fillna("").astype(str)
            continue
        numbers = pandas.to_numeric(frame[name], errors="coerce")
        wrong = frame[name][numbers.isna() & frame[name].notna()]
        if len(wrong):
            raise ValueError(f"{path}: column {name}, row {wrong.index[0] + 1} of the points: {wrong.iloc[0]!r} is not a number")
        frame[name] = numbers
    if "relative" not in frame and "loss" in frame:
        frame["relative"] = frame.delta / frame.loss
    finite = np.isfinite(frame.delta)
    return frame[finite], {"points whose loss is not finite": int((~finite).sum())}


def read(paths):
    """All points of cubes (.h5) and tables (.csv), and how many were left out by reason. ValueError: a file is neither, or
    a table lacks a column or has a text where a number belongs."""
    frames, dropped = [], {}
    for path in map(str, paths):
        frame, left_out = of_table(path) if path.endswith(".csv") else of_cube(path)
        frames.append(frame)
        for reason, count in left_out.items():
            dropped[reason] = dropped.get(reason, 0) + count
    points = pandas.concat(frames, ignore_index=True)
    for name in COLUMNS:
        if name not in points:
            points[name] = "" if name in TEXTS else np.nan
    points[list(TEXTS)] = points[list(TEXTS)].fillna("")
    points["family"] = points.family.where(points.family != "", points.model)
    twice = points.duplicated(KEY) if len(frames) > 1 else pandas.Series(False, index=points.index)
    dropped["points that an earlier file has too"] = int(twice.sum())
    return points[~twice].reset_index(drop=True), {reason: count for reason, count in dropped.items() if count}
