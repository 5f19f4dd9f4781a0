"""What the arguments of the package's commands have in common."""

import argparse
import pathlib
import sys
from collections.abc import Iterable

import xarray as xr


def numbers(parser: argparse.ArgumentParser, flag: str, text: "str | None", kind: type = int) -> "list | None":
    """The positive numbers, all of a kind, of `3,4`; None: the flag is not given. Ends the program with a message for anything else."""
    try:
        values = [kind(value) for value in text.split(",")] if text else None
    except ValueError:
        values = [0]
    if any(not 0 < value < float("inf") for value in values or ()):
        parser.error(f"{flag} {text}: expected positive numbers with commas between, such as 3,4")
    return values


def check_bits(bits: "list | None", cubes: "Iterable[xr.Dataset]") -> None:
    """Ends the program with a message if none of the cubes has one of the widths of --bits."""
    known = sorted({int(width) for cube in cubes for width in cube.bits.values})
    for width in bits or ():
        if width not in known:
            sys.exit(f"--bits {width}: there are {', '.join(map(str, known))}")


def make_folder(flag: str, folder: pathlib.Path) -> None:
    """Makes the folder that the flag names; ends the program with a message if it cannot."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{flag} {folder}: {error.strerror}")
