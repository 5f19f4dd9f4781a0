"""The colour and marker of methods, bit-widths and runs. They follow from the name, so that they are the same in all figures of all cubes."""

import zlib
from collections.abc import Iterable, Sequence

import xarray as xr

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
COLOURS = (VERMILION, BLUE, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = "so^DvPX<>ph*"
ALL = len(COLOURS) * len(MARKERS)  # pairs, all of which series() gives, since 7 and 12 have no common factor
METHODS = ("rtn", "gptq", "awq", "gptaq", "hqq", "nf4", "codebook", "int8", "e8p", "noise", "permuted", "flipped", "trellis", "smoothquant", "fp4", "mxfp4",
           "q4_k", "nvfp4", "int8_weight", "q4_0", "iq4_nl", "q3_k", "q2_k", "q5_k", "q6_k", "q8_0", "none", "billm")  # of six, neighbours differ in colour
WIDTHS = (2, 3, 4, 8, 5, 6, 1, 7, 16)


def series(i: int) -> "tuple[str, str]":
    """The colour and marker with the number i; ALL of them differ.

    >>> from qtraj.figures import colours
    >>> colours.series(0), colours.series(8)
    (('#D55E00', 's'), ('#0072B2', '>'))
    """
    return COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]


def of_bits(bits: float) -> "tuple[str, str]":
    """Colour and marker of a bit-width."""
    return series(WIDTHS.index(bits) if bits in WIDTHS else len(WIDTHS) + int(bits))


def of_methods(names: "Iterable[str]") -> "dict[str, tuple[str, str]]":
    """Colour and marker of each method by its name: a fixed one where the name is an algorithm's, else one that follows from the name, in a
    colour of neither rtn nor gptq. None is black, as full precision is. Of other names that would get the same pair, the first in the alphabet
    has it."""
    names, usable = list(dict.fromkeys(names)), [i for i in range(ALL) if COLOURS[i % len(COLOURS)] != BLACK]
    found = {name: usable[METHODS.index(name)] for name in names if name in METHODS}
    others = [i for i in usable if i % len(COLOURS) > 1]
    for name in sorted(set(names) - set(found)):
        start = zlib.crc32(name.encode())
        wanted = [others[(start + k) % len(others)] for k in range(len(others))]
        found[name] = next((i for i in wanted if i not in found.values()), wanted[0])
    return {name: series(found[name]) for name in names}


def of_quantizers(cube: xr.Dataset) -> "dict[str, tuple[str, str]]":
    """of_methods() of all that were in the cube when it was opened."""
    return of_methods(all_names(cube, "quantizer"))


def apart(i, taken):
    """Whether no number in `taken` has the colour or the marker of i, as long as there are others."""
    colours, markers = ({one % len(kind) for one in taken} for kind in (COLOURS, MARKERS))
    return (i not in taken and (i % len(COLOURS) not in colours or len(colours) == len(COLOURS))
            and (i % len(MARKERS) not in markers or len(markers) == len(MARKERS)))


def of_names(names: "Iterable[str]") -> "dict[str, tuple[str, str]]":
    """Colour and marker of each name: they follow from the name, but where two names would share one of them, the second in the alphabet gets
    another as long as there are any."""
    names, found = list(dict.fromkeys(names)), {}
    for name in sorted(names):
        wanted = [(zlib.crc32(name.encode()) + k) % ALL for k in range(ALL)]
        found[name] = next((i for i in wanted if apart(i, set(found.values()))), wanted[0])
    return {name: series(found[name]) for name in names}


def of_models(cube: xr.Dataset) -> "dict[str, tuple[str, str]]":
    """of_names() of all models that were in the cube when it was opened."""
    return of_names(all_names(cube, "model"))


def all_names(cube: xr.Dataset, axis: str) -> "Sequence[str]":
    """Names along an axis of the whole cube that this is a part of, and its own."""
    return list(dict.fromkeys([*map(str, cube[axis].values), *cube.attrs.get(f"all_{axis}", [])]))
