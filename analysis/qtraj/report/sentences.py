"""What each fit means, a sentence each, and which of its numbers lie outside the data."""

import numpy as np


def interval_of(fit, name):
    """All of a coefficient's intervals together: where runs differ, that over the points is too short. None: it has none."""
    ends = [end for found in fit.intervals.values() for end in (found.get(name) or ()) if np.isfinite(end)]
    return (min(ends), max(ends)) if ends else None


def factor(base, fit, name, sign=1):
    """base to the power of a coefficient, with its interval."""
    interval = interval_of(fit, name)
    text = f"{base ** (sign * fit.coefficients[name]):.3g}"
    if interval is None:
        return f"{text} (no interval)"
    low, high = sorted(base ** (sign * end) for end in interval)
    return f"{text} (95 % {low:.3g} to {high:.3g})"


def of_token_law(fit):
    """fit: of qtraj.laws.token_law."""
    parts = []
    if "beta" in fit.coefficients:
        parts.append(f"twice the training tokens multiply the added loss (nats a token) by {factor(2, fit, 'beta')}")
    if "gamma" in fit.coefficients:
        parts.append(f"3 bits instead of 4 multiply it by {factor(4 / 3, fit, 'gamma')}")
    if "alpha" in fit.coefficients:
        parts.append(f"twice the parameters divide it by {factor(2, fit, 'alpha')}")
    return f"In words: {'; '.join(parts)}." if parts else ""


def of_effects(found):
    """found: of qtraj.laws.tokens_or_rate."""
    fit = found.get("tokens and learning rate")
    if isinstance(fit, str) or fit is None:
        fit = found.get("tokens alone")
        if isinstance(fit, str) or fit is None:
            return ""
        return f"In words: twice the tokens multiply the relative error by {factor(2, fit, 'ln tokens')}, whatever the learning rate does meanwhile."
    tokens, rate = factor(2, fit, "ln tokens"), factor(2, fit, "ln rate", -1)
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
    if isinstance(fit, str) or not {"alpha_D", "alpha_N"} <= set(fit.coefficients):
        return ""
    return (f"In words: of a large model, twice the tokens multiply the full-precision loss (nats a token) by {factor(2, fit, 'alpha_D', -1)}; "
            f"of one with many tokens, twice the parameters by {factor(2, fit, 'alpha_N', -1)}.")


def of_widths(fits):
    """fits: of each bit-width alone; one without an interval says nothing."""
    parts = [f"{factor(2, fit, 'beta')} at {bits:g} bits" for bits, fit in fits.items()
             if not isinstance(fit, str) and "beta" in fit.coefficients and interval_of(fit, "beta")]
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
    found = {name: fit for fit in fits.values() if not isinstance(fit, str) for name in fit.coefficients}
    parts = [f"{text} {factor(base, found[name], name, sign)}" for name, (base, sign, text) in effects.items() if name in found]
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
