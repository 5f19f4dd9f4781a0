"""Cubes in memory: one of them, or several joined along the axis `model`; the tables in their files; the settings in which they
differ."""

import collections
import fnmatch
import functools
import json
import logging
import os
import pathlib
import re
from collections.abc import Sequence

import h5py
import numpy as np
import pandas
import xarray as xr

from qtraj.cube import parts

NOT_ASKED = 3  # in variables of states: not_applicable
SEPARATE = ("name", "title", "models", "results", "run", "export", "surfaces")  # sections of a sweep that say nothing of how a cell was measured
NAMED = {"model": "model", "dataset": "text", "quantizer": "method"}  # axes along which names stand, and what these are
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
log = logging.getLogger("qtraj")


def open(*paths: "str | os.PathLike") -> xr.Dataset:
    """One or several results cubes as one Dataset in memory; the files are closed, so that a running sweep may replace them.

    Several cubes are joined along `model`; on the other axes (bits, quantizer, dataset, ...) the result has the values of all, NaN
    where a cube has none. A model that several cubes have is called NAME (FILE). Settings in which the cubes differ are logged; see
    differences(). The coordinate `file` says where a model comes from. ValueError: a file is no cube, or is named twice.

    >>> cube = qtraj.open("one.h5", "averages.h5")
    >>> [str(name) for name in cube.model.values]
    ['SmolLM3-3B (one)', 'SmolLM3-3B (averages)']
    >>> cube.bits.values
    array([2, 3, 4, 8])
    >>> float(cube.loss.sel(model="SmolLM3-3B (one)", bits=2).count())  # nats a token
    0.0
    """
    if not paths:
        raise ValueError("no cube is named")
    cubes = [read(path) for path in paths]
    return cubes[0] if len(cubes) == 1 else join(cubes)


def natural(name: str) -> tuple:
    """The key by which names are sorted: numbers in them by value.

    >>> from qtraj.cube.files import natural
    >>> sorted(["peak1e-2", "peak1e-3", "peak3e-3", "step1000", "step900"], key=natural)
    ['peak1e-3', 'peak3e-3', 'peak1e-2', 'step900', 'step1000']
    """
    return tuple(float(part) if i % 2 else part for i, part in enumerate(NUMBER.split(name))), name


def in_natural_order(cube):
    """The cube with its models in the order of natural() if they are in the order of their texts, as `qtraj init` lists them; a sweep file's
    other order stays."""
    names = [str(name) for name in cube.model.values]
    return cube.isel(model=sorted(range(len(names)), key=lambda i: natural(names[i]))) if names == sorted(names) else cube


def with_all_names(cube):
    """The cube with the names of its models and methods as attributes, which its parts keep: colours follow from them."""
    return cube.assign_attrs({f"all_{axis}": [str(name) for name in cube[axis].values] for axis in ("model", "quantizer") if axis in cube.dims})


def file_of(path):
    """The file of results that a path names. ValueError: it is not there, or a journal."""
    path = parts.located(path)
    if not os.path.exists(path):
        raise ValueError(f"{path}: not a results cube: there is no such file")
    if path.endswith(".journal"):
        raise ValueError(f"{path}: not a results cube but a journal: give {path.removesuffix('.journal')}.h5, which qtraj rebuild makes of it")
    return path


def read(path: "str | os.PathLike") -> xr.Dataset:
    """One cube with the coordinates `file` and `name_in_file` of its models; of a sweep file, or of parts, see parts.located."""
    path = file_of(path)
    try:
        with xr.open_dataset(path, engine="h5netcdf") as cube:
            cube = cube.load()
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not a results cube that can be read: {error}") from None
    if "model" not in cube.dims:
        raise ValueError(f"{path}: not a results cube that can be read: it has no axis model")
    cube = with_all_names(in_natural_order(cube))
    return cube.assign_coords(file=("model", np.array([str(path)] * cube.sizes["model"], dtype=object)),
                              name_in_file=("model", cube.model.values.astype(object)))


# --- several cubes as one ---


def files_of(cube: xr.Dataset) -> "list[str]":
    """The files that the models of a cube come from, each once, in the order of the cube."""
    return list(dict.fromkeys(map(str, cube.file.values))) if "file" in cube.coords else []


def with_names(cubes):
    """The cubes with names of models that only one of them has: where several do, the file's name is added."""
    files = [files_of(cube)[0] for cube in cubes]
    full = [os.path.realpath(file) for file in files]
    twice = [file for file, count in collections.Counter(full).items() if count > 1]
    if twice:
        raise ValueError(f"{files[full.index(twice[0])]}: named twice")
    above = os.path.commonpath([os.path.dirname(file) for file in full])
    count = collections.Counter(str(name) for cube in cubes for name in cube.model.values)
    for cube, file in zip(cubes, full):
        label = str(pathlib.PurePath(os.path.relpath(file, above)).with_suffix(""))
        new = {name: f"{name} ({label})" for name in map(str, cube.model.values) if count[name] > 1}
        cube = cube.assign_coords(model=[new.get(str(name), str(name)) for name in cube.model.values])
        if "branch_of" in cube.variables:
            branches = np.array([new.get(str(name), str(name)) for name in cube.branch_of.values], dtype=object)
            cube["branch_of"] = cube.branch_of.copy(data=branches)
        yield cube


def empty(variable):
    """What a variable has where nothing was asked."""
    if variable.dtype.kind in "OUS":
        return ""
    return NOT_ASKED if "flag_meanings" in variable.attrs or variable.dtype.kind in "ui" else np.nan


def axis_of(cubes, name):
    """The values of an axis of all cubes: numbers sorted, names in the order in which they come."""
    values = list(dict.fromkeys(value for cube in cubes if name in cube.dims for value in cube[name].values))
    return sorted(values) if all(isinstance(value, (int, float, np.number)) for value in values) else values


def join(cubes: "Sequence[xr.Dataset]") -> xr.Dataset:
    """Cubes of read() as one; open() says how."""
    cubes = list(with_names(cubes))
    axes = {name: axis_of(cubes, name) for name in dict.fromkeys(name for cube in cubes for name in cube.dims) if name != "model"}
    kinds = {name: (cube[name], name in cube.coords) for cube in cubes for name in cube.variables
             if "model" in cube[name].dims and name != "model"}
    blank = {name: empty(variable) for name, (variable, _) in kinds.items()}
    whole = []
    for cube in cubes:
        own = {name: values for name, values in axes.items() if name in cube.dims}
        cube = cube.reindex(own, fill_value={name: value for name, value in blank.items() if name in cube})
        for name, (variable, coordinate) in kinds.items():
            if name in cube.variables:
                continue
            shape = [cube.sizes["model"] if axis == "model" else len(axes[axis]) for axis in variable.dims]
            values = (variable.dims, np.full(shape, blank[name], dtype=variable.dtype), variable.attrs)
            cube = cube.assign_coords({name: values}) if coordinate else cube.assign({name: values})
        whole.append(cube.assign_coords({name: values for name, values in axes.items()}))
    out = xr.concat(whole, dim="model", join="exact", combine_attrs="drop_conflicts")
    out.attrs["title"] = ", ".join(dict.fromkeys(cube.attrs.get("title") or pathlib.Path(files_of(cube)[0]).stem for cube in cubes))
    out = with_all_names(out)
    found = differences(out)
    if len(found):
        log.warning("settings differ between the cubes: %s", ", ".join(found.index))
    return out


def provenance(file: "str | os.PathLike") -> dict:
    """The texts of a file's group provenance/ by name, JSON decoded, `merged` of its plan, and whether it is of parts that are `unmerged`;
    empty for a cube without it."""
    path = file_of(file)
    with h5py.File(path) as opened:
        group = opened.get("provenance")
        texts = {name: group[name].asstr()[()] for name in group} if group is not None else {}
    decoded = {}
    for name in ("config", "libraries", "inputs", "end", "plan"):
        try:
            decoded[name] = json.loads(texts.get(name) or "{}")
        except ValueError:
            decoded[name] = {}
    return texts | decoded | {"plan": texts.get("plan", ""), "merged": decoded["plan"].get("merged", {}), "unmerged": path in parts.FOR_NOW}


def flat(value, name=""):
    """Pairs of a name and a value: entries of lists by their names."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from flat(one, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for i, one in enumerate(value):
            yield from flat(one, f"{name}[{one.get('name') or one.get('method') or i}]")
    else:
        yield name, json.dumps(value) if isinstance(value, list) else str(value)


def differences(cube: xr.Dataset) -> pandas.DataFrame:
    """The settings of the sweeps in which the files of a joined cube differ: a row a setting, a column a file.

    Where models, results and files of equal digests are, and how a run was distributed, is left out: no number depends on it.

    >>> qtraj.differences(qtraj.open("one.h5")).empty
    True
    """
    columns, digests = {}, {}
    for file in files_of(cube):
        said = provenance(file)
        digests[file] = said["inputs"]
        columns[file] = dict(flat({key: value for key, value in said["config"].items() if key not in SEPARATE}))
        if said.get("version"):
            columns[file]["version"] = said["version"]
    frame = pandas.DataFrame(columns, dtype=object).fillna("")
    return frame[frame.apply(lambda column: column.map(lambda value: digests[column.name].get(value, value))).nunique(axis=1) > 1]


# --- parts of a cube ---


def changed(file):
    """What differs once the file is written anew."""
    status = os.stat(file)
    return status.st_ino, status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=16)
def read_group(file, name, _):
    """A table of the file (None: it has none) and the number of its sequences. It is read once, so its arrays cannot be written to."""
    with h5py.File(file) as opened:
        if name not in opened:
            return None, 0
        count = len(opened["sequences/loss"]) if "sequences/loss" in opened else 0
    with xr.open_dataset(file, engine="h5netcdf", group=name) as group:
        group.load()
    for variable in group.variables.values():
        variable.values.flags.writeable = False
    return group, count


def open_group(cube: xr.Dataset, name: str) -> "xr.Dataset | None":
    """A table of the cube's files, such as `layers` (`qtraj variables` lists them), with the rows of the cube's models; None if it is
    not there or empty. Of several files the rows follow each other, and sequence_start counts through. Its arrays may be read-only.

    >>> qtraj.open_group(qtraj.open("surfaces.h5"), "surfaces").sizes["row"]
    736
    """
    found, before = [], 0
    for file in files_of(cube):
        group, count = read_group(file, name, changed(file))
        if group is None:
            continue
        group = group.copy()
        if "sequence_start" in group:
            group["sequence_start"] = group.sequence_start + before
        before += count
        if "model" in group.variables:
            group = rows_of_models(cube.sel(model=cube.file == file), group)
        if all(group.sizes.values()):
            found.append(group)
    if len(found) < 2:
        return found[0] if found else None
    rows = [group.reset_coords() for group in found]
    return xr.concat(rows, dim=row_axis(found[0]), join="outer")


def row_axis(group):
    """The axis of a table along which its rows lie."""
    return next(iter((group.model if "model" in group.variables else next(iter(group.data_vars.values()))).dims))


def rows_of_models(cube, group):
    """The rows of the cube's models, with the names that these have in the cube."""
    names = dict(zip(map(str, cube.name_in_file.values), map(str, cube.model.values)))
    there = np.array([str(name) in names for name in group.model.values], dtype=bool)
    if all(str(name) == names.get(str(name)) for name in group.model.values):
        return group
    group = group.isel({row_axis(group): np.flatnonzero(there)})
    group["model"] = group.model.copy(data=np.array([names[str(name)] for name in group.model.values], dtype=object))
    return group


def select(cube: xr.Dataset, **wanted) -> xr.Dataset:
    """A part of the cube that keeps all axes, as the figures need them: one value or a list for each named axis; of models, texts and
    methods, names or shell patterns. ValueError: the cube has none of them.

    >>> cube = qtraj.open("two_models.h5")
    >>> qtraj.select(cube, model="SmolLM3*", bits=3).sizes["model"]
    2
    """
    for axis, values in wanted.items():
        if axis not in cube.dims:
            raise ValueError(f"the cube has no axis {axis}; its axes are {', '.join(map(str, cube.dims))}")
        values = [values] if isinstance(values, (str, int, float, np.generic)) else list(values)
        if axis in NAMED:
            cube = choose(cube, axis, values)
        else:
            cube = cube.sel({axis: [value for value in cube[axis].values if value in values]})
        if cube.sizes[axis] == 0:
            raise ValueError(f"the cube has no {axis} {', '.join(map(str, values))}")
    return cube


def choose(cube: xr.Dataset, axis: str, patterns: "Sequence[str]") -> xr.Dataset:
    """The cube with only what is called like one of the patterns (names, or those of a shell) along an axis of NAMED; its attribute
    chosen_AXIS says so. ValueError: a pattern that nothing is called like."""
    names = [str(name) for name in cube[axis].values]
    found = {pattern: [pattern] if pattern in names else fnmatch.filter(names, pattern) for pattern in patterns}
    lost = [pattern for pattern, alike in found.items() if not alike]
    if lost:
        raise ValueError(f"no {NAMED[axis]} is called {', '.join(lost)}; there are {', '.join(names)}")
    return cube.sel({axis: [name for name in names if name in sum(found.values(), [])]}).assign_attrs({f"chosen_{axis}": 1})


def of_models(cube: xr.Dataset, names: "Sequence[str]") -> xr.Dataset:
    """The cube with the models of these names, in its own order."""
    return cube.sel(model=[name for name in cube.model.values if str(name) in names])


def widths(cube: xr.Dataset, wanted: "Sequence[int] | None") -> "list[int]":
    """The wanted bit-widths that the cube has; all of its bit-widths if wanted is None or it has none of them."""
    there = [int(bits) for bits in cube.bits.values]
    return [bits for bits in wanted or there if bits in there] or there


def with_replicates(cells: xr.Dataset, value: str, error: str) -> "xr.DataArray | None":
    """Uncertainty of a variable of cells by text and calibration together: √(error² + deviation over replicates²), NaN
    without a deviation. None: the cube has no replicates."""
    name = f"{value}_replicate_std"
    return np.hypot(cells[error], cells[name]) if name in cells and np.isfinite(cells[name]).any() else None
