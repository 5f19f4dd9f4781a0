"""Methods that quantize what a model computes: inputs of linears (A), keys (K) and values (V), beside the weights (W)."""

import re
from typing import NamedTuple

import xarray as xr

FULL = 16  # bits of what is not quantized
NAMES = ("activation_bits", "key_bits", "value_bits")
ENDING = re.compile(r"(-(a|k|v|kv)\d+)+$")  # of the names that lists of widths give


class Widths(NamedTuple):
    """How a method quantizes weights (the name of the method with nothing else in few bits; none: not at all), and the other widths."""

    weights: str
    a: int = FULL
    k: int = FULL
    v: int = FULL

    def parts(self) -> "list[str]":
        """What it quantizes."""
        own = [] if self.weights == "none" else ["W"]
        own += ["A"] if self.a != FULL else []
        if self.k == self.v:
            return own + (["KV"] if self.k != FULL else [])
        return own + [name for name, width in (("K", self.k), ("V", self.v)) if width != FULL]

    def alone(self, part: str) -> "Widths":
        """The same of this part alone."""
        return Widths(self.weights if part == "W" else "none", self.a if part == "A" else FULL, self.k if part in ("K", "KV") else FULL,
                      self.v if part in ("V", "KV") else FULL)


def widths_of(cube: xr.Dataset) -> "dict[str, Widths]":
    """The widths of each method of the cube.

    >>> qtraj.cube.activations.widths_of(qtraj.open("activations.h5"))["rtn-a4-kv4"]
    Widths(weights='rtn', a=4, k=4, v=4)
    """
    names = [str(name) for name in cube.quantizer.values]
    of = {name: [int(cube[axis].values[i]) if axis in cube.variables else FULL for axis in NAMES] for i, name in enumerate(names)}
    return {name: Widths(ENDING.sub("", name) if set(of[name]) != {FULL} else name, *of[name]) for name in names}


def cell_of(widths: "dict[str, Widths]", wanted: Widths, bits: int) -> "tuple[str, int] | None":
    """Name and width of weights of the method that has these widths; None: there is none."""
    found = [name for name, one in widths.items() if one == wanted]
    return (found[0], FULL if wanted.weights == "none" else bits) if found else None
