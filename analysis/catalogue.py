"""The figures of a results cube: their names, what draws them, and what a caption says of them."""

from dataclasses import dataclass
from typing import Callable

import accuracy
import accuracy_loss
import agreement
import averages
import bit_widths
import curvature
import layer_errors
import loss_surface
import methods
import movement
import movement_layers
import prediction
import quantized_loss
import relative_error
import spectral_density
import validation_loss


@dataclass
class Figure:
    """draw(cube, bits) returns a figure, or None where the cube has no numbers for it."""

    name: str  # of its files
    draw: Callable
    title: str
    shows: str
    bars: str  # what the error bars are
    scored: str  # which tokens its numbers are of: those of "evaluation", "curvature", "calibration" or "surfaces"; "tasks": items too; "weights": of none
    needs: str  # what the sweep must have for it


PAIRED = "one standard error over the text's sequences, paired: both models are scored on the same sequences"
REPLICATED = ("; where the sweep has replicates, thin lines without caps add the standard deviation over calibration text, "
              "√(error² + deviation²)")
OF_ITEMS = "one standard error over the tasks' items, paired: both models answer the same items; the tasks themselves are given"
NONE = "there are none"

FIGURES = [
    Figure("relative_error", relative_error.draw, "Relative error over training",
           "CE(quantized)/CE(full precision) − 1. A row is a run with its branches and averages, a column a bit-width, a colour and "
           "marker a method. Dotted behind, with the axis at the right: the learning rate.",
           f"{PAIRED}{REPLICATED}.", "evaluation", "cells that are done"),
    Figure("validation_loss", validation_loss.draw, "Loss over training",
           "At the left the loss at full precision, then for each bit-width what quantization adds to it. Dotted: the learning rate.",
           f"of the added loss, {PAIRED}{REPLICATED}; of the full-precision loss, one standard error over sequences.", "evaluation", "cells that are done"),
    Figure("quantized_loss", quantized_loss.draw, "Quantized against full-precision loss",
           "One curve a run and method, in the order of training, from high losses at the right to low ones at the left; "
           "numbers are the steps of the first and the last checkpoint. The height above the dotted bisector is the added loss.",
           f"of that height, {PAIRED}{REPLICATED}.", "evaluation", "cells that are done"),
    Figure("bit_widths", bit_widths.draw, "Relative error by bit-width, method and average",
           "The last checkpoint of each run and branch, and the last average of each entry of the sweep's averages. Points of a "
           "bit-width are moved sideways so that they do not cover each other. Where points are not told from zero, the axis is "
           "linear around zero and logarithmic beyond.",
           f"{PAIRED}{REPLICATED}.", "evaluation", "cells that are done"),
    Figure("methods", methods.draw, "Relative error over training, method by method",
           "CE(quantized)/CE(full precision) − 1. A panel is a method, a colour and marker a bit-width; panels with the same "
           "bit-widths have the same axes. Dotted behind: the learning rate.",
           f"{PAIRED}{REPLICATED}.", "evaluation", "cells that are done"),
    Figure("averages", averages.draw, "What averaging changes",
           "Loss of the last average of each entry of averages minus the loss of its last member, in full precision and quantized: "
           "below zero, averaging helps.",
           f"{PAIRED}{REPLICATED}, the same text for both.", "evaluation", "averages in the sweep (models[].averages)"),
    Figure("agreement", agreement.draw, "Agreement of the predictions over training",
           "Mean KL divergence of the quantized model's next-token distribution from the full-precision one, and the share of positions "
           "where both put the same token first. Dotted: the learning rate.", f"{NONE}; the cube has no spread of these means.", "evaluation",
           "KL divergence or top-1 agreement of cells"),
    Figure("accuracy", accuracy.draw, "Accuracy and loss over training",
           "A row is a run with its branches and averages at one bit-width. From the left: relative error of the loss, CE(quantized)/CE(full precision) − 1; "
           "accuracy degradation (A − A′)/(1 − A) of the accuracies A in full precision and A′ quantized, the mean over tasks (below zero, "
           "quantization gains accuracy); the mean accuracies themselves. Dotted: the learning rate.",
           f"of the relative error, {PAIRED}{REPLICATED}; of the degradation, {OF_ITEMS}; of accuracies, one standard error over items, not paired.",
           "tasks", "accuracies, or of no cell those of all tasks (the sweep file's section tasks)"),
    Figure("accuracy_loss", accuracy_loss.draw, "Accuracy degradation against relative error",
           "Checkpoint by checkpoint: accuracy degradation (A − A′)/(1 − A), the mean over tasks, against the relative error of the loss. A "
           "thin line joins the checkpoints in the order of training, numbers are the steps of the first and the last one, ρ is Spearman's rank "
           "correlation with its 95 % interval, without the averages.",
           f"sideways, {PAIRED}{REPLICATED}; upwards, {OF_ITEMS}.",
           "tasks", "accuracies, or of no cell those of all tasks (the sweep file's section tasks)"),
    Figure("curvature", curvature.draw, "Relative error against sharpness and trace",
           "Checkpoint by checkpoint against the largest eigenvalue and the trace of the Hessian of the full-precision loss; a thin line "
           "joins the checkpoints in the order of training, numbers are steps, ρ is Spearman's rank correlation with its 95 % interval, "
           "without the averages, which are points of their own. Hollow markers: the eigenvalue has not converged.",
           f"upwards, {PAIRED}{REPLICATED}; sideways, the standard error of the trace over its random probes, and of sharpness the residual "
           "‖Hv − λv‖, within which there is an eigenvalue.", "curvature", "curvature (the sweep file's section curvature)"),
    Figure("prediction", prediction.draw, "Predicted and actual difference of loss",
           "What gradient g and Hessian H at the full-precision weights predict for the change δ of the weights, against what "
           "quantization does to the loss on the same tokens. On the dotted line both are equal; numbers are steps of the method "
           "with the greatest difference.",
           f"{NONE}: prediction and difference are exact on these tokens.", "curvature", "second-order predictions (curvature.second_order)"),
    Figure("spectral_density", spectral_density.draw, "Spectra of the Hessian",
           "Density of the eigenvalues of the Hessian of the full-precision loss by stochastic Lanczos quadrature, averaged over its runs, each node a narrow "
           "Gaussian; up to six checkpoints of each run.", f"{NONE}.", "curvature", "spectral densities (curvature.density)"),
    Figure("layer_errors", layer_errors.draw, "Error by layer",
           "Relative error of each quantized tensor's outputs on the calibration inputs, tr(ΔHΔᵀ)/tr(WHWᵀ), over training: a row of the "
           "map is a tensor, block by block, a column a checkpoint. The scale is logarithmic and differs between panels.",
           f"{NONE}.", "calibration", "errors of layers (methods that use calibration)"),
    Figure("movement", movement.draw, "Movement of the weights over training",
           "Change of the weights from one checkpoint to the next, at the later one: at the left its Euclidean length over that of the "
           "weights, at the right the root mean square change of a weight over that of the step of the quantizer's grid. Below the "
           "dashed line a weight moves by less than a step between checkpoints, below the other line by less than rounding to nearest "
           "moves it. Checkpoints that are farther apart in training have moved farther. Dotted: the learning rate.",
           f"{NONE}: the numbers are exact.", "weights", "movement of the weights (the sweep file's key movement)"),
    Figure("movement_layers", movement_layers.draw, "Movement of the weights by layer",
           "Root mean square change of a weight of each quantized tensor from one checkpoint to the next, at the later one, in steps of "
           "the quantizer's grid: a row of the map is a tensor, block by block, a column a checkpoint; the first has none before it. "
           "With other bit-widths all numbers change by one factor. The scale is logarithmic and differs between panels.",
           f"{NONE}: the numbers are exact.", "weights", "movement of the weights (the sweep file's key movement)"),
    Figure("loss_surface", loss_surface.draw, "Loss surfaces",
           "Loss over planes through weight space. Points are the checkpoints and quantized weights that span the plane, numbers are steps; "
           "axes are Euclidean distances ‖Δw‖ between weights, or multiples of random directions. White lines join equal losses. The colour "
           "scale ends at the 98th percentile.",
           f"{NONE}; all points of a plane are scored on the same sequences.", "surfaces", "surfaces (the sweep file's section surfaces)"),
]
BY_NAME = {figure.name: figure for figure in FIGURES}
