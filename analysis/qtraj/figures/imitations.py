"""A method beside changes of the same norm in other directions."""

from qtraj.figures import over_training
from qtraj.figures.figure import PAIRED, REPLICATED, figure_of_cube
from qtraj.figures.relative_error import ERROR

KINDS = ("noise", "permuted", "flipped")


@figure_of_cube(
    "Quantization beside other changes of the same norm",
    "Relative error of gptq, and of changes of every tensor with its norm: Gaussian noise, its entries permuted within rows, or with random "
    "signs. Curves that rise together: the loss gets more curved; only gptq's rises: its direction changes. Dotted behind: the learning rate.",
    f"{PAIRED}{REPLICATED}.", "evaluation", "cells of the methods noise, permuted or flipped")
def imitations(cube, bits, place):
    """Relative error CE(quantized)/CE - 1 over training of gptq and of noise, permuted and flipped changes of its norm."""
    names = list(map(str, cube.quantizer.values))
    kinds = [name for name in names if name.startswith(KINDS)]
    shown = [name for name in names if name in kinds or name.startswith("gptq")]
    return over_training.draw(cube.sel(quantizer=shown), bits, place, [ERROR]) if kinds else None
