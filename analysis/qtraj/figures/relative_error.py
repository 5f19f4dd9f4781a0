"""Relative error over training."""

from qtraj.figures import over_training
from qtraj.figures.figure import PAIRED, REPLICATED, figure_of_cube
from qtraj.figures.over_training import Quantity

ERROR = Quantity("Relative error (%)", "loss_relative", "loss_relative_stderr", 100)


@figure_of_cube(
    "Relative error over training",
    "CE(quantized)/CE(full precision) − 1. A row is a run with its branches and averages, a column a bit-width, a colour and "
    "marker a method. Dotted behind, with the axis at the right: the learning rate of the checkpoints.",
    f"{PAIRED}{REPLICATED}.", "evaluation", "cells that are done")
def relative_error(cube, bits, place):
    """Relative error CE(quantized)/CE - 1 over training, one panel per bit-width: figure 1 of arXiv 2510.06213."""
    return over_training.draw(cube, bits, place, [ERROR])
