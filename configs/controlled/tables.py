#!/usr/bin/env python3
"""Tables of a sweep of controlled runs that are named seed1-..., such as tiny.yaml's: what they say of each claim, errors and losses over seeds.
PYTHONPATH=analysis python3 configs/controlled/tables.py results/controlled/tiny.h5 [PAGE.md]

Prints them, or puts them between the page's lines <!-- tables NAME -->, of the cube's file, and the next <!-- end -->."""

import pathlib
import re
import sys

import numpy as np

import qtraj
from qtraj.cube.files import natural
from qtraj.laws.regression import interval


def over_seeds(values):
    """The mean over seeds with half the width of its 95 % interval by Student's t."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if not len(values):
        return ""
    low = interval(values.mean(), values.std(ddof=1) / np.sqrt(len(values)), len(values) - 1)[0] if len(values) > 1 else np.nan
    return f"{values.mean():.3f}" + ("" if np.isnan(low) else f"±{values.mean() - low:.3f}")


def row_of(cube, values, models, steps):
    """Over these models, which differ by their seed, at each of the steps; averages are left out."""
    def at(model, step):
        own = cube.sel(model=model)
        there = (own.step.values == step) & (own.kind.values == "stored")
        return values.sel(model=model).values[there].squeeze() if there.sum() == 1 else np.nan

    return "|".join(over_seeds([at(model, step) for model in models]) for step in steps)


def shown(cube):
    """The first step, the last of each run, and the last before a run's rate falls."""
    lines = [line for lines in qtraj.families(cube) for line in lines]
    steps = {line.own(cube.step)[-1] for line in lines}
    steps |= {line.own(cube.step)[k] for line in lines if line.parent is None for k in (0, np.flatnonzero(line.learning_rate == line.learning_rate.max())[-1])}
    return sorted(int(step) for step in steps)


def tables(cube):
    """Of each method at the fewest bits and of the loss: a row a peak and branch, a column a number of tokens."""
    kinds = {}
    for name in map(str, cube.model.values):
        kinds.setdefault(name.split("-", 1)[1], []).append(name)
    steps = shown(cube)
    tokens = {int(step): float(of) for step, of in zip(cube.step.values.ravel(), cube.tokens.values.ravel()) if step > 0}
    bits, one = int(cube.bits.min()), cube.isel(dataset=0)
    for title, values in [(f"Relative error in percent, {label}, {bits} bits", 100 * one.loss_relative.sel(quantizer=label, bits=bits))
                          for label in map(str, cube.quantizer.values)] + [("Loss in full precision, nats", one.baseline_loss)]:
        yield f"|{title}; after tokens|" + "|".join(f"{tokens[step] / 1e6:.2f}M" for step in steps) + "|"
        yield "|---" * (len(steps) + 1) + "|"
        for kind in sorted(kinds, key=natural):
            yield f"|{kind}|{row_of(one, values, kinds[kind], steps)}|"
        yield ""


def claims(cube):
    yield "| claim | measured | estimate (95 %) | runs | |"
    yield "|---|---|---|---|---|"
    for row in qtraj.claims.claims(cube).itertuples():
        if not row.reason.startswith("not measured"):
            found = f"{row.estimate:.3g} ({row.reason or f'{row.low:.3g} to {row.high:.3g}'})"
            yield f"|{row.claim}|{row.estimand}|{found}|{row.n}|{row.verdict}|"
    yield ""


def main():
    cube = qtraj.open(sys.argv[1])
    text = "\n".join([*claims(cube), *tables(cube)])
    if len(sys.argv) < 3:
        print(text)
        return
    with open(sys.argv[2], encoding="utf-8") as file:
        page = file.read()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(re.sub(rf"(?s)(<!-- tables {pathlib.Path(sys.argv[1]).stem} -->\n).*?(<!-- end -->)", lambda found: found[1] + text + found[2], page))


if __name__ == "__main__":
    main()
