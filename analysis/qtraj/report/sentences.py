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
        return ""
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


def of_block(block, found):
    """The sentence behind a heading or a part of qtraj.laws.tables; empty: it has none."""
    if block.kind == "part":
        law = found["token law"].get(block.text)
        return of_token_law(law["logarithms"]) if isinstance(law, dict) and "logarithms" in law else ""
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
