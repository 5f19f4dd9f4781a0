"""Loss on the evaluation text over training (figure 2 of arXiv 2510.06213): at full precision, and what quantization
adds to it. The error bars of the difference are paired, sequence by sequence."""

import over_training
from over_training import Quantity

FULL = Quantity("Loss (nats a token)", "baseline_loss", "baseline_loss_stderr")
DIFFERENCE = Quantity("Added loss (nats a token)", "loss_delta", "loss_delta_stderr")


def draw(cube, bits):
    return over_training.draw(cube, bits, [DIFFERENCE], FULL)
