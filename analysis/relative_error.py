"""Relative error CE(quantized)/CE - 1 over training, one panel per bit-width: figure 1 of arXiv 2510.06213."""

import over_training
from over_training import Quantity

ERROR = Quantity("Relative error CE(q)/CE − 1 (%)", "loss_relative", "loss_relative_stderr", 100)


def draw(cube, bits):
    return over_training.draw(cube, bits, [ERROR])
