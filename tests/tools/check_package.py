"""Runs the examples of all documentation of the package qtraj, in a folder of made-up cubes:  check_package.py CUBES

Fails if an example does not give what it shows, or if a public function (of an __all__ of the package) lacks a type hint or a
documentation, or if several cubes as one do not have the numbers of each."""

import doctest
import importlib
import inspect
import json
import os
import pathlib
import pkgutil
import shutil
import sys
import tempfile

import h5py
import matplotlib
import numpy as np
import pandas

import qtraj
from qtraj.cube import paired


def modules():
    """Every module of the package."""
    yield qtraj
    for found in pkgutil.walk_packages(qtraj.__path__, "qtraj."):
        yield importlib.import_module(found.name)


def documented(module):
    """Names and things with a documentation that the module defines: itself, its functions and classes."""
    yield module.__name__, module
    for name, thing in vars(module).items():
        if getattr(thing, "__module__", "") == module.__name__ and (inspect.isfunction(thing) or inspect.isclass(thing)):
            yield f"{module.__name__}.{name}", thing


def public():
    for module in (qtraj, qtraj.cube, qtraj.figures, qtraj.laws, qtraj.predict, qtraj.claims, qtraj.report):
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                yield f"{module.__name__}.{name}", getattr(module, name)


def complaints(name, function):
    if not inspect.getdoc(function):
        yield f"{name}: no documentation"
    hints = inspect.signature(function)
    without = [p.name for p in hints.parameters.values() if p.annotation is p.empty and p.kind != p.VAR_KEYWORD]
    if without or hints.return_annotation is hints.empty:
        yield f"{name}: no type hint of {', '.join(without) or 'what it returns'}"


def check_join():
    """Cubes with other axes, methods, texts and variables; two of the same models, with the losses of their sequences."""
    names = ["averages.h5", "two_datasets.h5", "six_methods.h5"]
    whole, parts = qtraj.open(*names), [qtraj.open(name) for name in names]
    assert whole.sizes["bits"] == 4 and whole.sizes["quantizer"] == 6 and whole.sizes["dataset"] == 3, whole.sizes
    for name, part in zip(names, parts):
        mine = whole.isel(model=np.flatnonzero(whole.file == name))
        mine = mine.assign_coords(model=mine.name_in_file).sel({axis: part[axis] for axis in part.dims if axis != "model"})
        for variable in set(part.variables) - {"branch_of"}:  # which has the new names
            assert mine[variable].dims == part[variable].dims, (name, variable)
            np.testing.assert_array_equal(mine[variable].values, part[variable].values, f"{name}: {variable}")
    assert set(np.unique(whole.task_status.sel(model=whole.file == "six_methods.h5"))) == {3}  # not asked
    with tempfile.TemporaryDirectory() as folder:
        copies = [shutil.copy("averages.h5", pathlib.Path(folder) / name) for name in ("a.h5", "b.h5")]
        for copy, other in zip(copies, ("1", "2")):  # one text at two paths, and two texts
            with h5py.File(copy, "r+") as file:
                file["provenance/config"] = json.dumps({"evaluation": [{"name": name, "text": f"{name}{copy}"} for name in ("same", "other")]})
                file["provenance/inputs"] = json.dumps({f"same{copy}": "0", f"other{copy}": other})
        both = qtraj.open(*copies)
        assert list(qtraj.differences(both).index) == ["evaluation[other].text"], qtraj.differences(both)
        lines = [line for lines in qtraj.families(both, averages=True) for line in lines if line.average]
        rows = [paired.rows_of(both, group) for group in ("checkpoints", "cells")]
        changes = [[repr(change[2:]) for change in paired.changes(both, line, [2, 3], *rows)] for line in lines]
    assert [line.model[-3:] for line in lines] == ["(a)", "(a)", "(b)", "(b)"], lines
    assert changes[:2] == changes[2:] and "nan, nan), {" not in str(changes[0]), changes


def main():
    os.chdir(sys.argv[1])
    check_join()
    matplotlib.use("Agg")
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    for module in modules():
        for name, thing in documented(module):
            runner.run(parser.get_doctest(thing.__doc__ or "", {"qtraj": qtraj, "np": np, "pandas": pandas}, name, inspect.getsourcefile(module), 0))
    wrong = [complaint for name, function in public() for complaint in complaints(name, function)]
    print(*wrong, f"{runner.tries} examples, {runner.failures} wrong", sep="\n")
    sys.exit(bool(wrong) or runner.failures > 0 or runner.tries < 20)


if __name__ == "__main__":
    main()
