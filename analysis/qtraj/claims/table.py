"""The claims of arXiv 2510.06213 and 2411.17691 that cubes can speak to, and what they say."""

import pandas
import xarray as xr

from qtraj.claims import averages, curves
from qtraj.claims.claim import ALONE, UNDECIDED, Claim, Found, Rule
from qtraj.claims.data import Data, data_of, from_cube
from qtraj.cube.points import TWICE

FLAT = 0.1  # of the error for an e-fold of tokens: a quarter for ten times the tokens
ALIKE = 0.8  # correlation of curves that count as the same trend
DYNAMICS, TOKENS = "arXiv 2510.06213", "arXiv 2411.17691"  # figures of version 2, of version 1
PER_E = "growth of the error with ln(tokens)"
RISES, FALLS = Rule(low=0.0), Rule(high=0.0)

CLAIMS = [
    Claim("decay-rises", "The error rises while the learning rate decays.", f"{DYNAMICS}, figure 1", f"{PER_E} in decays", RISES,
          "relative_error", curves.each_run(curves.growth_while_decaying), "a decay with 3 checkpoints, that before it included"),
    Claim("constant-flat", "The error does not change while the learning rate is constant.", f"{DYNAMICS}, figure 1",
          f"{PER_E} at the greatest rate", Rule(-FLAT, FLAT), "relative_error", curves.each_run(curves.growth_while_constant),
          "3 checkpoints at the greatest rate"),
    Claim("decay-steeper", "It rises faster in the decay than before.", f"{DYNAMICS}, figure 1", "difference of these, over one mean", RISES,
          "fit_tokens_or_rate", curves.each_run(curves.difference_of_growths), "a decay and the greatest rate, with 3 checkpoints each"),
    Claim("rate-not-tokens", "At equal tokens a decayed branch has a greater error than the run it left.", f"{DYNAMICS}, figure 4",
          "error, branch minus run, over the mean of both", RISES, "relative_error", curves.each_run(curves.branch_against_main),
          "a branch that ends at a number of tokens between two checkpoints of its run at the greatest rate"),
    Claim("budget-free", "Cooldowns at different budgets end at the same error.", f"{DYNAMICS}, figure 4", f"{PER_E} of the ends", Rule(-FLAT, FLAT),
          "relative_error", curves.each_run(curves.growth_of_ends), "3 decays of a run (its own and branches) that end, at a tenth of the greatest rate or less, at different tokens"),
    Claim("peak-rate", "A greater peak rate gives a smaller error.", f"{DYNAMICS}, figure 6",
          "slope of the last error on ln(peak rate), sizes and tokens held fixed", FALLS, "relative_error",
          curves.over_last(curves.ln_peak), "4 runs of two peak rates (5 if sizes and tokens differ too), with a method, bit-width and text in common"),
    Claim("peak-rate-matched", "It does so at equal full-precision loss.", f"{DYNAMICS}, figure 6",
          "slope of the error at a common loss on ln(peak rate)", FALLS, "quantized_loss", curves.matched,
          "4 runs of two peak rates (5 if sizes and tokens differ too), with a method, bit-width and text in common"),
    Claim("weight-decay", "More weight decay gives a smaller error.", f"{DYNAMICS}, figure 19", "slope of the last error on weight_decay", FALLS,
          "relative_error", curves.over_last(curves.column("weight_decay")), "4 runs of two values of the column weight_decay"),
    Claim("cosine", "A cosine schedule gives a greater error than a constant rate with a decay.", f"{DYNAMICS}, figure 5",
          "last error, cosine minus others (column schedule)", RISES, "relative_error",
          curves.over_last(curves.column("schedule", curves.is_cosine)), "4 runs, cosine and other ones in the column schedule"),
    Claim("average-error", "Averaging weights along a run lowers the error.", f"{DYNAMICS}, section 5.2",
          "error, average minus its last member, over the mean of both", FALLS, "averages", averages.averages("member", "relative"),
          "averages, beside their last members"),
    Claim("average-cooldown", "Quantized, an average is better than a cooldown.", f"{DYNAMICS}, figure 7",
          "quantized loss, average minus cooldown at equal tokens", FALLS, "averages", averages.averages("cooldown", "loss"),
          "averages, and a branch that ends within 5 % of their tokens"),
    Claim("average-full", "In full precision it is not.", f"{DYNAMICS}, figure 7", "full-precision loss, average minus cooldown", RISES,
          "averages", averages.averages("cooldown", "full"), "averages, and a branch that ends within 5 % of their tokens"),
    Claim("soup", "A soup of runs has a smaller error than each of its ingredients.", f"{DYNAMICS}, figure 2",
          "error, soup minus the ingredient that has the least, over the mean of both", FALLS, "averages", averages.averages("ingredients", "relative"),
          "a soup (an average of several runs, or of the phase soup) and its ingredients"),
    *(Claim(f"curvature-{name}", f"The error goes with {words} over training.", f"{DYNAMICS}, figure 9",
            f"rank correlation of error and {name} over checkpoints", RISES, "curvature", curves.each_correlation(curves.correlated_with(name)),
            f"{name} at 5 checkpoints")
      for name, words in (("trace", "the trace of the Hessian"), ("sharpness", "its greatest eigenvalue"), ("distance", "the change of the weights"))),
    Claim("same-methods", "Methods have the same trend.", f"{DYNAMICS}, figure 10", "rank correlation of the errors of two methods over checkpoints",
          Rule(low=ALIKE), "methods", curves.each_correlation(curves.agreement_over(0)), "two methods at 5 checkpoints"),
    Claim("same-texts", "Texts have the same trend.", DYNAMICS, "rank correlation of the errors on two texts over checkpoints", Rule(low=ALIKE),
          "relative_error", curves.each_correlation(curves.agreement_over(2)), "two texts at 5 checkpoints"),
    Claim("same-calibrations", "Calibrations have the same trend.", DYNAMICS, "rank correlation of the errors of two replicates over checkpoints",
          Rule(low=ALIKE), "relative_error", curves.same_calibrations, "replicates at 5 checkpoints"),
    Claim("tokens-raise", "The added loss grows with training tokens.", f"{TOKENS}, Eq. 5", "growth of the added loss with ln(tokens)", RISES,
          "fit_token_law", curves.each_run(curves.growth_with_tokens), "3 checkpoints"),
    Claim("size-lowers", "It is smaller for larger models.", f"{TOKENS}, Eq. 6", "slope of the last added loss on ln(parameters), tokens held fixed",
          FALLS, "fit_token_law", curves.over_last(curves.ln_parameters, added=True), "4 runs of two sizes"),
    Claim("bits-lower", "It falls with the bit-width.", f"{TOKENS}, Eq. 7", "growth of the added loss with ln(bits)", FALLS, "fit_token_law",
          curves.each_run(curves.fall_with_bits), "two bit-widths"),
    *(Claim(f"cause-{kind}", f"The error grows like that of {words}: flatness is the cause, not the direction of the change.", "this project",
            f"{PER_E} of gptq minus that of {kind}", Rule(-FLAT, FLAT), "imitations", curves.each_run(curves.imitation(kind)),
            f"gptq and {kind} at 3 checkpoints")
      for kind, words in (("noise", "noise of the same norm"), ("permuted", "its own changes in another order"))),
    *(Claim(f"decay-{kind}", f"A decay raises the error of {words} as much as that of gptq.", "this project",
            f"change of the error over a decay, over the mean of both, {kind} minus gptq", Rule(-FLAT, FLAT), "frontier",
            curves.each_run(curves.decayed(kind)), f"{kind} and gptq before and at the end of a decay")
      for kind, words in (("trellis", "trellis codes"), ("e8p", "lattice codes"))),
    Claim("inputs-rise", "The error of inputs of linears in 4 bits rises while the learning rate decays, as that of weights.", "this project",
          f"{PER_E} in decays, inputs alone in 4 bits", RISES, "activation_widths", curves.each_run(curves.growth_of_inputs_while_decaying(4)),
          "a decay with 3 checkpoints, and inputs alone in 4 bits (W16A4)"),
    Claim("outliers-rise", "So do outliers.", "this project", "growth of the kurtosis of inputs of linears with ln(tokens) in decays", RISES, "outliers",
          curves.each_run(curves.growth_of_outliers_while_decaying), "outliers at 3 checkpoints of a decay"),
    Claim("inputs-cause", "Inputs and weights in 4 bits lose for the same cause: their errors go together beyond what tokens say.", "this project",
          "partial rank correlation of both errors over checkpoints, given tokens", RISES, "activation_widths", curves.each_correlation(curves.same_cause(4)),
          "weights alone and inputs alone in 4 bits (W4, W16A4) at 6 checkpoints"),
]


def row_of(claim: Claim, found: Found, command: str) -> dict:
    """The claim and what was found of it."""
    words = f"{found.n} run{'s' if found.n != 1 else ''}"
    unmeasured = "not told from noise" if found.left_out and not found.points else f"not measured: needs {claim.needs}"
    reason = "" if found.low == found.low else unmeasured if found.value != found.value else f"{words}: no interval"
    said = claim.rule.verdict(found)
    if found.over == "text" and said != UNDECIDED:
        said += ALONE[found.n]
    return {"name": claim.name, "claim": claim.text, "place": claim.place, "estimand": claim.estimand, "n": found.n, "estimate": found.value,
            "low": found.low, "high": found.high, "interval over": "" if reason else "runs" if found.over == "runs" else f"the text, of {words} alone",
            "rule": str(claim.rule), "verdict": said, "reason": reason, "points": found.points, "left out": found.left_out,
            "scale": "logarithms" if found.logarithms else "", "figure": claim.figure, "command": f"{command} --only {claim.name}"}


def claims(source: "pandas.DataFrame | xr.Dataset | Data", only: str = "", command: str = "analysis/claims.py") -> pandas.DataFrame:
    """What points (qtraj.points) or a cube say of each claim, or of those called `only` (with commas between): estimate, the 95 % interval low to high, and the verdict
    `supported`, `against` or `cannot tell` by the rule. Runs are the unit; of one or two runs the interval is over the text alone, or
    missing, and the verdict adds `in this run` (`in these runs`). `points` are the errors that the estimate is from, `left out` those of cells that cannot be told from zero (docs/fits.md).
    A run that several files of the cube have is one; attrs["left_out"] counts its cells that an earlier file has too. ValueError: there is no such claim.

    >>> found = qtraj.claims.claims(qtraj.open("two_models.h5")).set_index("name")
    >>> found.loc[["decay-rises", "average-error"], ["n", "verdict", "reason"]].values.tolist()
    [[2, 'cannot tell', '2 runs: no interval'], [0, 'cannot tell', 'not measured: needs averages, beside their last members']]
    """
    names = only.split(",") if only else [claim.name for claim in CLAIMS]
    chosen = [claim for claim in CLAIMS if claim.name in names]
    unknown = [name for name in names if name not in {claim.name for claim in CLAIMS}]
    if unknown:
        raise ValueError(f"there is no claim {unknown[0]}; there are {', '.join(claim.name for claim in CLAIMS)}")
    data = source if isinstance(source, Data) else data_of(source) if isinstance(source, pandas.DataFrame) else from_cube(source)
    found = pandas.DataFrame([row_of(claim, claim.measure(data), command) for claim in chosen])
    found.attrs["left_out"] = {TWICE: data.twice} if data.twice else {}
    return found
