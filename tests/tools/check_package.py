"""Runs the examples of all documentation of the package qtraj, in a folder of made-up cubes:  check_package.py CUBES

Fails if an example does not give what it shows, or if a public function (of an __all__ of the package) lacks a type hint or a
documentation."""

import doctest
import importlib
import inspect
import os
import pkgutil
import sys

import matplotlib
import numpy as np

import qtraj


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
    for module in (qtraj, qtraj.cube, qtraj.figures, qtraj.laws, qtraj.report):
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


def main():
    os.chdir(sys.argv[1])
    matplotlib.use("Agg")
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    for module in modules():
        for name, thing in documented(module):
            runner.run(parser.get_doctest(thing.__doc__ or "", {"qtraj": qtraj, "np": np}, name, inspect.getsourcefile(module), 0))
    wrong = [complaint for name, function in public() for complaint in complaints(name, function)]
    print(*wrong, f"{runner.tries} examples, {runner.failures} wrong", sep="\n")
    sys.exit(bool(wrong) or runner.failures > 0 or runner.tries < 20)


if __name__ == "__main__":
    main()
