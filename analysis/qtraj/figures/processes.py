"""Figures drawn side by side, one process a core."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

work: tuple = ()  # what the processes have from the start: a function, and what it takes behind an item


def begin(*of) -> None:
    global work
    work = of


def run(item):
    function, *shared = work
    return function(item, *shared)


def on_cores(function: Callable, items: Sequence, *shared) -> Iterator:
    """function(item, *shared) of each item, in their order, in processes that begin as copies of this one. Errors are raised here."""
    cores = min(len(os.sched_getaffinity(0)), len(items))
    with ProcessPoolExecutor(cores, multiprocessing.get_context("fork"), begin, (function, *shared)) as pool:
        yield from pool.map(run, items)
