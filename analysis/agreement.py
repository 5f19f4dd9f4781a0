"""How far the quantized model's predictions are from the full-precision ones over training: mean KL divergence of the
next-token distributions, and the share of positions where both put the same token first."""

import over_training
from over_training import Quantity

QUANTITIES = [Quantity("KL divergence (nats a token)", "kl_divergence"),
              Quantity("Top-1 agreement (%)", "top1_agreement", scale=100)]


def draw(cube, bits):
    return over_training.draw(cube, bits, QUANTITIES)
