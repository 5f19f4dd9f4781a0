"""What the arguments of the package's commands have in common."""

import argparse
import pathlib
import sys


def numbers(parser: argparse.ArgumentParser, flag: str, text: "str | None", kind: type = int) -> "list | None":
    """The positive numbers, all of a kind, of `3,4`; None: the flag is not given. Ends the program with a message for anything else."""
    try:
        values = [kind(value) for value in text.split(",")] if text else None
    except ValueError:
        values = [0]
    if any(not 0 < value < float("inf") for value in values or ()):
        parser.error(f"{flag} {text}: expected positive numbers with commas between, such as 3,4")
    return values


def make_folder(flag: str, folder: pathlib.Path) -> None:
    """Makes the folder that the flag names; ends the program with a message if it cannot."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{flag} {folder}: {error.strerror}")
