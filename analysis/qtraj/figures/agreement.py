"""Agreement of the predictions over training."""

from qtraj.figures import over_training
from qtraj.figures.figure import NONE, figure_of_cube
from qtraj.figures.over_training import Quantity

QUANTITIES = [Quantity("KL divergence (nats)", "kl_divergence"),
              Quantity("Top-1 agreement (%)", "top1_agreement", scale=100)]


@figure_of_cube(
    "Agreement of the predictions over training",
    "Mean KL divergence of the quantized model's next-token distribution from the full-precision one, and the share of positions "
    "where both put the same token first. Dotted: the learning rate.", f"{NONE}; the cube has no spread of these means.", "evaluation",
    "KL divergence or top-1 agreement of cells")
def agreement(cube, bits, place):
    """How far the quantized model's predictions are from the full-precision ones over training: mean KL divergence of the next-token
    distributions, and the share of positions where both put the same token first."""
    return over_training.draw(cube, bits, place, QUANTITIES)
