"""The points that laws are fitted to: one row per finished cell and text of any number of cubes, or of a table of
published numbers (CSV)."""

import os

import numpy as np
import pandas
import xarray as xr

from qtraj.cube import files
from qtraj.cube.activations import FULL
from qtraj.cube.activations import NAMES as WIDTHS
from qtraj.cube.trajectories import Trajectory, parents_first, trajectories

COLUMNS = {
    "model": "the training run", "family": "the run that it branches from, else itself", "checkpoint": "its name",
    "phase": "of training", "quantizer": "label of the method", "dataset": "text", "parameters": "N, without embeddings",
    "tokens": "D, training tokens", "bits": "P", "learning_rate": "at the checkpoint", "loss": "full precision, nats a token",
    "delta": "added loss, nats a token", "delta_stderr": "its standard error over the text",
    "delta_deviation": "its standard deviation over replicates", "relative": "delta / loss",
    "sharpness": "of the full-precision loss", "trace": "of its Hessian", "distance": "norm of the change of the weights",
    "second_order": "added loss that curvature predicts, nats a token",
    "activation_bits": "of the inputs of linears; 16: not quantized", "key_bits": "of keys", "value_bits": "of values",
    "outliers": "kurtosis of the inputs of linears, their geometric mean",
}
NEEDED = ("model", "parameters", "tokens", "bits", "delta")
TEXTS = ("model", "family", "checkpoint", "phase", "quantizer", "dataset")
TWICE = "points that an earlier file has too"
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


def kurtosis_of_inputs(cube):
    """Of each checkpoint the geometric mean over blocks and inputs of linears; None: the cube has no outliers."""
    if "outlier_kurtosis" not in cube:
        return None
    inputs = [site for site in cube.site.values if str(site) in ("qkv", "o", "up", "down")]
    return np.exp(np.log(cube.outlier_kurtosis.sel(site=inputs)).mean(["block", "site"]))


def states(cube):
    """The state of each cell on each text: 0, pending, where a finished one lacks the scores of a text that was added."""
    if "top1_agreement" not in cube:
        return cube.status
    return xr.where((cube.status == 1) & cube.top1_agreement.isnull(), 0, cube.status)


def unfinished(cube: xr.Dataset) -> str:
    """How many cells have no numbers on some text, in words: "6 cells are pending, 1 failed", or an empty text."""
    state = states(cube) if "status" in cube else xr.DataArray([1], dims="cell")
    others = [axis for axis in state.dims if axis not in cube.get("status", state).dims]
    pending, failed = (int((state == word).any(others).sum()) for word in (0, 2))
    words = [f"{pending} cell{'s are' if pending != 1 else ' is'} pending"] if pending else []
    return ", ".join(words + ([f"{failed} failed"] if failed else []))


def of_cube(cube: xr.Dataset) -> "tuple[pandas.DataFrame, dict[str, int]]":
    """The points of a cube, and how many were left out by reason."""
    if "loss_delta" not in cube:
        raise ValueError(f"{', '.join(files.files_of(cube)) or 'the cube'}: it has no loss_delta, so it is not a results cube of qtraj")
    like = cube.loss_delta
    cube = cube.assign(status=states(cube)) if "status" in cube else cube
    kurtosis = kurtosis_of_inputs(cube)
    cube = cube.assign(outliers=kurtosis) if kurtosis is not None else cube
    source = {"parameters": "parameters_non_embedding", "tokens": "tokens", "learning_rate": "learning_rate",
              "loss": "baseline_loss", "delta": "loss_delta", "delta_stderr": "loss_delta_stderr",
              "delta_deviation": "loss_delta_replicate_std", "relative": "loss_relative",
              "sharpness": "sharpness", "trace": "trace", "distance": "weight_distance", "second_order": "second_order", "outliers": "outliers", **{name: name for name in WIDTHS}, "status": "status", "kind": "kind",
              "phase": "phase", "checkpoint": "checkpoint_name", "file": "file", "name": "name_in_file", "digest": "weights_digest", "model": "model", "bits": "bits", "quantizer": "quantizer",
              "dataset": "dataset"}
    # Every variable in the order of the axes of `like`.
    frame = pandas.DataFrame({column: variable(cube, name, like).transpose(*like.dims).values.ravel()
                              for column, name in source.items()})
    frame["family"] = frame.model.map(roots(cube))
    frame["name"] = frame.name.where(frame.name.notna(), frame.model)
    frame = frame.fillna({"file": "", "digest": ""})
    average = frame.kind == "average"
    diverged = ~average & (frame.status == 1) & ~np.isfinite(frame.delta)
    dropped = {"averages of checkpoints, which are no place of their own in training": int((average & np.isfinite(frame.delta)).sum()),
               "points whose loss is not finite": int(diverged.sum()), "points that are pending": int((~average & (frame.status == 0)).sum())}
    return frame[~average & np.isfinite(frame.delta)].drop(columns=["status", "kind"]), dropped


def conflict(one, two):
    """Whether some checkpoint of both has weights of two digests."""
    return any(two.get(checkpoint, digest) != digest for checkpoint, digest in one.items())


def same(one, two):
    """Whether models of two files are one: no checkpoint of both has other weights, and they have one name or all digests of the one
    that has fewer (two at least) are the other's."""
    if conflict(one["digests"], two["digests"]):
        return False
    mine, other = (set(model["digests"].values()) for model in (one, two))
    return one["name"] == two["name"] or (min(len(mine), len(other)) > 1 and (mine <= other or other <= mine))


def once(*frames: pandas.DataFrame) -> "tuple[pandas.DataFrame, int, dict[str, str]]":
    """Points of several files with each model under the name that it has first, and each cell once, from the first file that has it; how
    many were left out; and the names, by what each model was called. same() says what is one model. Columns beside those of points(): file, name (in it), digest (of the weights)."""
    frame = pandas.concat([part.assign(source=number) for number, part in enumerate(frames)], ignore_index=True)
    frame["source"] = frame.groupby(["source", "file"], sort=False).ngroup()
    models, known, root = [], {}, {}  # known: (source, model) to its entry in models
    for (source, model), part in frame.groupby(["source", "model"], sort=False):
        first = part.drop_duplicates(["checkpoint", "tokens"])
        digests = {(name, tokens): digest for name, tokens, digest in zip(first.checkpoint, first.tokens, first.digest) if digest}
        new = {"name": part.name.iloc[0], "model": model, "digests": digests, "sources": {source}}
        one = next((old for old in models if source not in old["sources"] and same(old, new)), None)
        if one is None:
            one = new if all(old["model"] != model for old in models) else {**new, "model": f"{model} ({part.file.iloc[0]}, {source + 1})"}
            models.append(one)
        one["sources"].add(source)
        one["digests"] = {**digests, **one["digests"]}
        known[source, model] = one["model"]
    frame["model"], frame["family"] = ([known.get(key, key[1]) for key in zip(frame.source, frame[column])] for column in ("model", "family"))
    for model, family in dict.fromkeys(zip(frame.model, frame.family)):  # a branch may be without its run in one of the files
        root[model] = family if root.get(model, model) == model else root[model]
    frame["family"] = [root.get(family, family) for family in frame.family]
    twice = frame.source != frame.groupby(KEY, dropna=False, sort=False).source.transform("first")
    return frame[~twice].drop(columns=["source", "file", "name", "digest"]).reset_index(drop=True), int(twice.sum()), {model: name for (_, model), name in known.items()}


def main_lines(cube: xr.Dataset) -> "list[Trajectory]":
    """The trajectories of runs without their branches, of a run that several files have the first: what counts as one run in points() and claims.

    >>> [line.model for line in qtraj.cube.points.main_lines(qtraj.open("two_models.h5"))]
    ['SmolLM3-3B', 'OLMo2-7B']
    """
    families = set(once(complete(of_cube(cube)[0]))[0].family)
    return [line for line in trajectories(cube) if line.model in families]


def numbers_of(frame, name, path):
    """A column of a table that was read from a file. ValueError: something in it is no number."""
    numbers = pandas.to_numeric(frame[name], errors="coerce")
    wrong = frame[name][numbers.isna() & frame[name].notna()]
    if len(wrong):
        raise ValueError(f"{path}: column {name}, row {wrong.index[0] + 1} of the points: {wrong.iloc[0]!r} is not a number")
    return numbers


def of_table(path: "str | os.PathLike") -> "tuple[pandas.DataFrame, dict[str, int]]":
    """The points of a CSV file, '#' beginning a comment, and how many were left out by reason."""
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
        frame[name] = numbers_of(frame, name, path)
    if "relative" not in frame and "loss" in frame:
        frame["relative"] = frame.delta / frame.loss
    frame = frame.assign(file=str(path), name=frame.model, digest="")
    finite = np.isfinite(frame.delta)
    return frame[finite], {"points whose loss is not finite": int((~finite).sum())}


def complete(frame):
    """The points with all columns."""
    out = frame.assign(**{name: "" if name in TEXTS else np.nan for name in COLUMNS if name not in frame})
    out = out.fillna({name: "" for name in TEXTS} | {name: FULL for name in WIDTHS})
    return out.assign(family=out.family.where(out.family != "", out.model))


def points(*sources: "str | os.PathLike | xr.Dataset") -> pandas.DataFrame:
    """The points of cubes in memory, of their files (.h5), and of tables of published points (.csv): a row for each finished cell and
    text, with the columns COLUMNS. How many were left out, by reason, is in attrs["left_out"]. ValueError: a file is neither, or a
    table lacks a column or has a text where a number belongs.

    >>> found = qtraj.points("two_models.h5")
    >>> len(found), found.family.nunique(), found.attrs["left_out"]
    (128, 2, {})
    >>> found[["tokens", "bits", "delta"]].iloc[0].round(4).to_list()  # training tokens, bits, nats a token
    [444444444.4444, 3.0, 0.0446]
    """
    frames, dropped = [], {}
    for source in sources:
        if isinstance(source, xr.Dataset):
            frame, left_out = of_cube(source)
        else:
            frame, left_out = of_table(source) if str(source).endswith(".csv") else of_cube(files.read(source))
        frames.append(frame)
        for reason, count in left_out.items():
            dropped[reason] = dropped.get(reason, 0) + count
    out, dropped[TWICE], _ = once(*map(complete, frames))
    out.attrs["left_out"] = {reason: count for reason, count in dropped.items() if count}
    return out
