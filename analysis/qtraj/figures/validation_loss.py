"""Loss over training."""

from qtraj.figures import over_training
from qtraj.figures.figure import PAIRED, REPLICATED, figure_of_cube
from qtraj.figures.over_training import Quantity

FULL = Quantity("Loss (nats)", "baseline_loss", "baseline_loss_stderr")
DIFFERENCE = Quantity("Added loss (nats)", "loss_delta", "loss_delta_stderr")


@figure_of_cube(
    "Loss over training",
    "At the left the loss at full precision, with the losses of training where the run tells them, then for each bit-width what quantization adds "
    "to it. Dotted: the learning rate.",
    f"of the added loss, {PAIRED}{REPLICATED}; of the full-precision loss, one standard error over sequences.", "evaluation", "cells that are done")
def validation_loss(cube, bits, place):
    """Loss on the evaluation text over training (figure 1 of arXiv 2510.06213): at full precision, and what quantization adds to it.
    The error bars of the difference are paired, sequence by sequence."""
    return over_training.draw(cube, bits, place, [DIFFERENCE], FULL)
