"""Estimates of claims about averages of checkpoints, and soups of runs."""

import itertools
import re

import numpy as np

from qtraj.claims.claim import Found, Value, over_runs
from qtraj.claims.curves import change, over_cells
from qtraj.claims.data import IMITATIONS, Data
from qtraj.cube import paired

SAME_TOKENS = 0.05  # relative: tokens that count as equal


def averages(against, quantity):
    """Of each family the mean over its averages of a change: of the relative error (`relative`, as change() has it), of the quantized loss
    (`loss`) or of that in full precision (`full`), minus that of the last member (`member`), of the end of a cooldown at equal tokens
    (`cooldown`), or of each ingredient of a soup of several runs (`ingredients`), of which the greatest counts."""

    def measure(data: Data) -> Found:
        if data.cube is None or "loss_relative" not in data.cube:
            return Found()
        change_of, found = changes(data.cube, quantity), []
        for groups in data.families(averages=True):
            cells = {}  # by checkpoints and place of the cell, from the first file that has it
            for pairs in (one for group in groups for one in
                          (of_soups(data.cube, group) if against == "ingredients" else of_averages(data.cube, group, against))):
                names = tuple(str(data.cube.checkpoint_name.sel(model=model).values[place]) for pair in pairs for model, place in pair)
                for place, value in enumerate(greatest([change_of(*pair) for pair in pairs])):
                    if value.left_out or np.isfinite(value.value):
                        cells.setdefault((names, place), value)
            found.append(over_cells(list(cells.values())))
        return over_runs(found)

    return measure


def of_averages(cube, group, against):
    """Of each series of averages along a run lists with one pair of (model, place): of what an average is compared with, and of that."""
    for line in group:
        if line.average and len({model for model, _ in members(cube, group, line)}) < 2:
            for other, place in compared(group, line, against):
                yield [(other, (line.model, place))]


def compared(group, line, against):
    """Pairs of (model, place) and the place of the line's average that is compared with it: the last one with its last member, or the one
    of nearest tokens with the end of each cooldown, the first of those that end there."""
    if against == "member":
        places = paired.last_member(line)
        return [((line.model, places[1]), line.places[-1])] if places else []
    found = {}
    for other in group:
        if not other.average and other.parent is not None:
            nearest = int(np.argmin(abs(line.at - other.at[-1])))
            if abs(other.at[-1] / line.at[nearest] - 1) <= SAME_TOKENS:
                found.setdefault(line.places[nearest], (other.model, other.places[-1]))
    return [(other, place) for place, other in found.items()]


def members(cube, group, line):
    """(model, place) of the checkpoints of the group that the recipe of the line's last average names."""
    if "recipe" not in cube.variables:
        return []
    recipe = str(line.own(cube.recipe)[-1])
    said = {part.split(" ")[-1] for part in re.split(r"[(),;] ?", recipe)}
    called = dict(zip(map(str, cube.model.values), map(str, cube.name_in_file.values))) if "name_in_file" in cube.coords else {}
    return [(other.model, place) for other in group if not other.average for place, name in zip(other.places, map(str, other.own(cube.checkpoint_name)))
            if f"{called.get(other.model, other.model)}/{name}" in said or (other.model == line.model and name in said)]


def of_soups(cube, group):
    """Of each soup the pairs with its ingredients: of an average the members, if they are of several runs; of a publisher's soup (phase
    `soup`) the ends of the branches that are called ingredients."""
    ends = [(line.model, line.places[-1]) for line in group if not line.average and "ingredient" in line.model]
    for line in group:
        if line.average:
            found, place = members(cube, group, line), line.places[-1]
            if len({model for model, _ in found}) > 1:
                yield [(one, (line.model, place)) for one in found]
        elif ends and line.phase is not None and "soup" in line.phase:
            yield [(end, (line.model, line.places[line.phase == "soup"][-1])) for end in ends]


def greatest(changes_of_pairs):
    """Of each cell the greatest change of some pairs, left out where one of them is; no value where one is not measured."""
    for values in zip(*changes_of_pairs):
        left_out = sum(one.left_out for one in values)
        known = all(np.isfinite(one.value) for one in values)
        yield Value(left_out=left_out) if left_out else max(values) if known else Value()


def changes(cube, quantity):
    """A function from two (model, place) to the change of each cell from the first to the second; in full precision of each text. The error
    over the text is paired where the cube has the losses of sequences; else unknown, or for `relative` as if the texts were two."""
    place_of = {str(name): i for i, name in enumerate(cube.model.values)}
    names = {model: list(map(str, cube.checkpoint_name.values[i])) for model, i in place_of.items()}
    whole, cells = (paired.rows_of(cube, group) for group in ("checkpoints", "cells"))
    axes = ("model", "checkpoint", "bits", "quantizer", "dataset")
    tables = [cube[name].transpose(*axes).values for name in ("loss", "loss_relative", "loss_relative_stderr")]
    full, texts = cube.baseline_loss.transpose(*axes[:2], "dataset").values, list(map(str, cube.dataset.values))
    methods = [(k, name) for k, name in enumerate(map(str, cube.quantizer.values)) if not name.startswith(IMITATIONS)]

    def of(first, second):
        at = [(place_of[model], place) for model, place in (first, second)]
        keys = [(model, names[model][place]) for model, place in (first, second)]
        found = []
        for d, text in enumerate(texts):
            if quantity == "full":
                found.append(difference([full[i][d] for i in at], [whole(*key, text) for key in keys]))
                continue
            for (b, bits), (q, method) in itertools.product(enumerate(cube.bits.values), methods):
                loss, relative, noise = ([table[i][b, q, d] for i in at] for table in tables)
                quantized = [cells(*key, text, bits, method) for key in keys]
                if quantity == "loss":
                    found.append(difference(loss, quantized))
                    continue
                one, error = change(relative, noise), paired.relative_change(*zip(quantized, [whole(*key, text) for key in keys]))[1]
                found.append(one._replace(error=error / np.mean(relative)) if np.isfinite(error) and np.isfinite(one.value) else one)
        return found

    return of


def difference(pair, losses) -> Value:
    """The second loss minus the first, with its paired error."""
    return Value(float(pair[1] - pair[0]), paired.change(*losses)[1], 2) if np.isfinite(pair).all() else Value()
