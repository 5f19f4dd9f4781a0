"""The figures of a cube and of fits. Each is a function in a file of its own, with a caption (.caption); FIGURES are all of a cube in
the order of the report, FIT_FIGURES those of fits; compared() puts independent runs side by side.

>>> cube = qtraj.select(qtraj.open("one.h5"), bits=3)
>>> figure = qtraj.figures.relative_error(cube, width=3.3)  # of matplotlib, 3.3 inches wide
>>> figure.axes[0].get_ylabel()
'Relative error (%)'
>>> figure.axes[0].lines[0].get_ydata().round(2)  # per cent
array([0.82, 1.43, 5.46])
"""

from qtraj.figures.accuracy import accuracy
from qtraj.figures.accuracy_loss import accuracy_loss
from qtraj.figures.activation_widths import activation_widths
from qtraj.figures.agreement import agreement
from qtraj.figures.averages import averages
from qtraj.figures.bit_widths import bit_widths
from qtraj.figures.compared import compared, value_of
from qtraj.figures.curvature import curvature
from qtraj.figures.curvature_over_training import curvature_over_training
from qtraj.figures.error_parts import error_parts
from qtraj.figures.fit_full_precision import fit_full_precision
from qtraj.figures.fit_predictions import fit_predictions
from qtraj.figures.fit_token_law import fit_token_law
from qtraj.figures.fit_tokens_or_rate import fit_tokens_or_rate
from qtraj.figures.frontier import frontier
from qtraj.figures.gradient import gradient
from qtraj.figures.imitations import imitations
from qtraj.figures.layer_errors import layer_errors
from qtraj.figures.loss_surface import loss_surface
from qtraj.figures.methods import methods
from qtraj.figures.movement import movement
from qtraj.figures.movement_layers import movement_layers
from qtraj.figures.outliers import outliers
from qtraj.figures.prediction import prediction
from qtraj.figures.quantized_loss import quantized_loss
from qtraj.figures.relative_error import relative_error
from qtraj.figures.spectral_density import spectral_density
from qtraj.figures.stored_bytes import stored_bytes
from qtraj.figures.training import training
from qtraj.figures.validation_loss import validation_loss
from qtraj.figures.weights_over_time import weights_over_time
from qtraj.figures.figure import Caption, NoNumbers

FIGURES = (relative_error, validation_loss, training, quantized_loss, bit_widths, methods, frontier, stored_bytes, imitations, activation_widths, error_parts, outliers, averages, agreement, accuracy,
           accuracy_loss, curvature, curvature_over_training, gradient, prediction, spectral_density, layer_errors, movement, movement_layers, weights_over_time,
           loss_surface)
FIT_FIGURES = (fit_token_law, fit_tokens_or_rate, fit_predictions, fit_full_precision)
__all__ = [figure.__name__ for figure in FIGURES + FIT_FIGURES] + ["compared", "value_of", "FIGURES", "FIT_FIGURES", "Caption", "NoNumbers"]
