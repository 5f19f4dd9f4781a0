"""Laws of the loss that quantization adds, and of the loss in full precision, fitted to points (qtraj.points)."""

from qtraj.laws.added_loss import fit_form, token_law, token_law_robust, tokens_needed, tokens_needed_interval
from qtraj.laws.all_fits import fit_all
from qtraj.laws.dynamics import compare_forms, dynamics_law, with_dynamics
from qtraj.laws.effects import fixed_effects, tokens_or_rate
from qtraj.laws.fit import Fit
from qtraj.laws.forms import FORMS, Form
from qtraj.laws.formulas import predictions
from qtraj.laws.full_precision import full_precision_law
from qtraj.laws.single import full_precision_singles, single_laws

__all__ = ["fit_form", "FORMS", "Form", "token_law", "token_law_robust", "tokens_needed", "tokens_needed_interval", "full_precision_law",
           "full_precision_singles", "single_laws", "compare_forms", "dynamics_law", "with_dynamics", "tokens_or_rate", "fixed_effects",
           "predictions", "fit_all", "Fit"]
