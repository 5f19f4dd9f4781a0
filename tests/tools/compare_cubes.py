#!/usr/bin/env python3
"""compare_cubes.py A.h5 B.h5 [--relative R]: every dataset of two results cubes, bit for bit.

Ignores what may differ between two runs of one sweep: variables with the attribute volatile (timings, memory, hosts,
times), the root's history, and in provenance/config the path of the results and the ranks and threads of the run.
--relative also ignores fingerprints, which contain the number of ranks of a group, and allows f64 numbers to differ by R
times the maximum of 1 and their magnitude. Exits 1 and lists the differences when there are any.
"""

import argparse
import json
import sys

import h5py
import numpy as np

SKIPPED_ATTRIBUTES = {"DIMENSION_LIST", "REFERENCE_LIST", "history"}
SKIPPED_CONFIG = {"results", "run"}


def names(cube):
    found = {}  # keeps their order
    cube.visit(lambda name: found.update({name: None}))
    return found


def is_text(dataset):
    return h5py.check_string_dtype(dataset.dtype) is not None


def bits(values):
    """Values in a form that compares bit for bit, NaN equal to NaN."""
    values = np.atleast_1d(np.asarray(values))
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "f" else values


def without_places(text):
    config = json.loads(text or "null")
    if isinstance(config, dict):
        config = {key: value for key, value in config.items() if key not in SKIPPED_CONFIG}
    return config


def attributes(of):
    found = of.attrs
    return {key: found[key] for key in found if key not in SKIPPED_ATTRIBUTES}


def compare_attributes(name, a, b):
    for key in sorted(set(a) | set(b)):
        if key not in a or key not in b:
            yield f"{name}: attribute {key} is only in {'A' if key in a else 'B'}"
        elif not np.array_equal(bits(a[key]), bits(b[key])):
            yield f"{name}: attribute {key}: {a[key]!r} and {b[key]!r}"


def near(x, y, relative):
    """Indices where numbers differ by more than the tolerance; infinity equals only itself."""
    equal = (x == y) | (np.isnan(x) & np.isnan(y))
    size = np.maximum(1, np.maximum(np.abs(x), np.abs(y)))
    with np.errstate(invalid="ignore"):
        return ~equal & ~(np.isfinite(size) & (np.abs(x - y) <= relative * size))


def compare_values(name, a, b, relative):
    if a.dtype != b.dtype or a.shape != b.shape:
        yield f"{name}: {a.dtype} {a.shape} and {b.dtype} {b.shape}"
        return
    if name == "provenance/config":
        if without_places(a.asstr()[()]) != without_places(b.asstr()[()]):
            yield f"{name}: {a.asstr()[()]} and {b.asstr()[()]}"
        return
    x, y = (np.atleast_1d(d.asstr()[()] if is_text(d) else d[()]) for d in (a, b))
    if relative and x.dtype == np.float64:
        places = np.argwhere(near(x, y, relative))
    else:
        places = np.argwhere(x != y if is_text(a) else bits(x) != bits(y))
    if len(places):
        first = tuple(int(i) for i in places[0])
        yield f"{name}: {len(places)} of {x.size} differ, the first at {first}: {x[first]!r} and {y[first]!r}"


def compare(a, b, skipped, relative):
    yield from compare_attributes("/", attributes(a), attributes(b))
    in_a, in_b = names(a), names(b)
    yield from (f"{name}: only in A" for name in in_a if name not in in_b)
    yield from (f"{name}: only in B" for name in in_b if name not in in_a)
    for name in in_a:
        if name not in in_b or name.split("/")[-1] in skipped:
            continue
        x, y = a[name], b[name]  # opening an object takes longer than reading it
        attributes_of_x = attributes(x)
        yield from compare_attributes(name, attributes_of_x, attributes(y))
        if isinstance(x, h5py.Dataset) and "volatile" not in attributes_of_x:
            yield from compare_values(name, x, y, relative)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--relative", type=float, default=0)
    given = parser.parse_args()
    skipped = {"fingerprint"} if given.relative else set()
    with h5py.File(given.a, "r") as a, h5py.File(given.b, "r") as b:
        differences = list(compare(a, b, skipped, given.relative))
        count = len(names(a))
    for line in differences:
        print(line)
    print(f"{given.a} and {given.b}: {count} objects, {len(differences)} differences")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
