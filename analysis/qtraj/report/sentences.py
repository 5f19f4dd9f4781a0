"""What each fit means, a sentence each, and which of its numbers lie outside the data."""

import numpy as np


def factor(base, exponent, interval=None):
    """base to the power of an exponent, with the interval of that."""
    text = f"{base ** exponent:.3g}"
    if interval is None or not np.isfinite(interval).all():
        return text
    low, high = sorted(base ** end for end in interval)
    return f"{text} (95 % {low:.3g} to {high:.3g})"


def of_token_law(fit):
    """fit: of qtraj.laws.token_law."""
    intervals = next(iter(fit.intervals.values()), {})
    found = {name: (value, intervals.get(name)) for name, value in fit.coefficients.items()}
    parts = []
    if "beta" in found:
        parts.append(f"twice the training tokens multiply the added loss (nats a token) by {factor(2, *found['beta'])}")
    if "gamma" in found:
        parts.append(f"3 bits instead of 4 multiply it by {factor(4 / 3, *found['gamma'])}")
    if "alpha" in found:
        parts.append(f"twice the parameters divide it by {factor(2, *found['alpha'])}")
    return f"In words: {'; '.join(parts)}." if parts else ""


def of_effects(found):
    """found: of qtraj.laws.tokens_or_rate."""
    fit = found.get("tokens and learning rate")
    if isinstance(fit, str) or fit is None:
        fit = found.get("tokens alone")
        if isinstance(fit, str) or fit is None:
            return ""
        intervals = next(iter(fit.intervals.values()))
        tokens = factor(2, fit.coefficients["ln tokens"], intervals["ln tokens"])
        return f"In words: twice the tokens multiply the relative error by {tokens}, whatever the learning rate does meanwhile."
    intervals = next(iter(fit.intervals.values()))
    tokens, rate = (factor(2, sign * fit.coefficients[name], sign * np.array(intervals[name])) for name, sign in (("ln tokens", 1), ("ln rate", -1)))
    return (f"In words: at the same learning rate, twice the tokens multiply the relative error by {tokens}; at the same tokens, half the learning rate "
            f"multiplies it by {rate}. A factor whose interval contains 1 is not told from no effect.")


def of_predictions(found):
    """found: of qtraj.laws.predictions."""
    scores = {} if isinstance(found, str) else {name: score["rms error of ln(relative error)"] for name, score in found["scores"].items() if score and score["n"]}
    scores = {name: error for name, error in scores.items() if np.isfinite(error)}
    if not scores:
        return ""
    best = min(scores, key=scores.get)
    return (f"In words: for a {found['left out at a time']} that it has not seen, the best formula ({best}) gives the relative error up to a typical "
            f"factor of {np.exp(scores[best]):.2f}.")


def of_full_precision(fit):
    """fit: of qtraj.laws.full_precision_law."""
    if isinstance(fit, str) or "alpha_D" not in fit.coefficients:
        return ""
    return (f"In words: of a large model, twice the tokens multiply the full-precision loss (nats a token) by {factor(2, -fit.coefficients['alpha_D'])}; "
            f"of one with many tokens, twice the parameters by {factor(2, -fit.coefficients.get('alpha_N', np.nan))}.")


def of_widths(fits):
    """fits: of each bit-width alone."""
    parts = [f"{factor(2, fit.coefficients['beta'])} at {bits:g} bits" for bits, fit in fits.items() if not isinstance(fit, str) and "beta" in fit.coefficients]
    return f"In words: fitted alone, twice the training tokens multiply the added loss by {', '.join(parts)}." if parts else ""


def of_tokens(target):
    row = min(target["rows"], key=lambda one: one["bits"], default=None)
    if row is None or not np.isfinite(row["tokens"]):
        return ""
    return (f"In words: by the law, quantization of {row['parameters']:.3g} parameters to {row['bits']:g} bits adds {target['nats']:g} nats a token "
            f"after {row['tokens']:.3g} training tokens.")


def of_forms(found):
    score = found["scores"][found["best"]] if found["best"] in found["scores"] else np.nan
    if not np.isfinite(score):
        return ""
    form = f"the best form ({found['best']})" if len(found["alike"]) == 1 else f"each of {len(found['alike'])} forms, equally well,"
    return (f"In words: for a {found['left out at a time']} that it has not seen, {form} gives the added loss up to a typical "
            f"factor of {np.exp(score):.2f}.")


def of_dynamics(found):
    error = found["rms error of ln(added loss)"]
    if not np.isfinite(error):
        return ""
    names = [name for name in found["law"].coefficients if name != "ln k"]
    return (f"In words: the law in {' and '.join(names)} gives the added loss of a {found['left out at a time']} that it has not seen up to a typical "
            f"factor of {np.exp(error):.2f}.")


def of_singles(fits):
    """fits: laws of one variable."""
    effects = {"beta": (2, 1, "twice the training tokens multiply the added loss by"), "alpha": (2, -1, "twice the parameters multiply it by"),
               "gamma": (4 / 3, 1, "3 bits instead of 4 multiply it by")}
    found = {name: value for fit in fits.values() if not isinstance(fit, str) for name, value in fit.coefficients.items()}
    parts = [f"{text} {factor(base, sign * found[name])}" for name, (base, sign, text) in effects.items() if name in found]
    return f"In words: with all else equal, {'; '.join(parts)}." if parts else ""


OF_TABLES = (("robust", "robust", of_token_law), ("each bit-width alone", "each bit-width alone", of_widths),
             ("tokens until", "tokens at the added loss", of_tokens), ("form of the law", "forms", of_forms),
             ("dynamics law", "dynamics", of_dynamics), ("law of one variable", "one variable", of_singles))


def of_block(block, found, part=""):
    """The sentence behind a block of qtraj.laws.tables; empty: it has none. part: the method and text that a table is of."""
    law = found["token law"].get(block.text if block.kind == "part" else part)
    if not isinstance(law, dict):
        law = {}
    if block.kind == "part":
        return of_token_law(law["logarithms"]) if law else ""
    for begin, key, sentence in OF_TABLES:
        if block.kind == "table" and block.rows[0][0].startswith(begin) and not isinstance(law.get(key, ""), str):
            text = sentence(law[key])
            return f"{text} (†)" if text and any(one.endswith("†") for one in block.rows[1]) else text
    for begin, sentence, key in (("Tokens or learning", of_effects, "tokens or learning rate"), ("Predicting", of_predictions, "predictions"),
                                 ("Full-precision", of_full_precision, "full-precision law")):
        if block.kind == "heading" and block.text.startswith(begin) and key in found:
            return sentence(found[key])
    return ""


def mark_outside(rows, points):
    """Marks tokens beyond those of the points in a table of tokens until an added loss; returns whether there are any."""
    low, high, marked = points.tokens.min(), points.tokens.max(), False
    for row in rows[1:]:
        try:
            outside = not low <= float(row[2]) <= high
        except ValueError:
            continue
        if outside:
            row[2], marked = f"{row[2]} †", True
    return marked
