"""What the arguments of the package's commands have in common."""

import argparse
import pathlib
import sys


def bit_widths(parser: argparse.ArgumentParser, flag: str, text: "str | None") -> "list[int] | None":
    """The numbers of `3,4`; None: the flag is not given. Ends the program with a message for anything else."""
    try:
        return [int(width) for width in text.split(",")] if text else None
    except ValueError:
        parser.error(f"{flag} {text}: expected numbers with commas between, such as 3,4")


def make_folder(flag: str, folder: pathlib.Path) -> None:
    """Makes the folder that the flag names; ends the program with a message if it cannot."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{flag} {folder}: {error.strerror}")
