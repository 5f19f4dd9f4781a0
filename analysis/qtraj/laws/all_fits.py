"""All fits of a table of points."""

from collections.abc import Sequence

import pandas

from qtraj.laws import added_loss, dynamics, effects, formulas, full_precision, single


def attempt(fit, *arguments):
    try:
        return fit(*arguments)
    except ValueError as error:
        return str(error)


def law_of(points, draws):
    """Both fits of the token law to the points of one method and text; a text says why not."""
    try:
        first = added_loss.token_law(points, draws)
    except ValueError as error:
        return str(error)
    try:
        second = added_loss.token_law_robust(points, first)
    except ValueError as error:
        second = str(error)
    widths = {}
    for bits in sorted(set(points.bits)) if points.bits.nunique() > 1 else []:
        try:
            widths[float(bits)] = added_loss.token_law(points[points.bits == bits].reset_index(drop=True), 0)
        except ValueError as error:
            widths[float(bits)] = str(error)
    return {"logarithms": first, "robust": second, "each bit-width alone": widths, "one variable": single.single_laws(points),
            "forms": attempt(dynamics.compare_forms, points), "dynamics": attempt(dynamics.dynamics_law, points)}


def tokens_of(law, points, target, sizes):
    """Tokens at which the law of one method gives the added loss `target`, by size and bit-width, beside the published law: for those
    that the law tells apart, or the one that its points have. ValueError: sizes are asked for that the points do not tell apart."""
    if "alpha" not in law["logarithms"].coefficients and any(abs(size / points.parameters.iloc[0] - 1) > 1e-6 for size in sizes):
        raise ValueError(f"all points have {points.parameters.iloc[0]:g} parameters: the law cannot tell other sizes from it; leave out --parameters")
    fit, rows = law["logarithms"], []

    def told(name, coefficient):
        """Values of a column that the law may be asked for."""
        low, high = fit.ranges[name]
        return sorted(set(points[name][points[name] > 0])) if coefficient in fit.coefficients else [low] if low == high else []

    for size in sizes or told("parameters", "alpha") if fit.coefficients.get("beta", 0) > 0 else []:
        for bits in told("bits", "gamma"):
            rows.append({"parameters": float(size), "bits": float(bits), "tokens": added_loss.tokens_needed(fit.coefficients, size, bits, target),
                         "interval": added_loss.tokens_needed_interval(fit, size, bits, target),
                         "published": added_loss.tokens_needed(added_loss.PUBLISHED, size, bits, target)})
    return rows


def fit_all(points: pandas.DataFrame, target: float = 0.2, sizes: "Sequence[float]" = (), draws: int = 400) -> dict:
    """Everything that the points are enough for; a text instead of a fit says why not. target: the added loss in nats a token, and
    sizes: the parameters, for which tokens are computed (none: the sizes of the points). draws: of each bootstrap.

    >>> found = qtraj.laws.fit_all(qtraj.points("two_models.h5"), draws=0)
    >>> list(found)
    ['token law', 'tokens or learning rate', 'predictions', 'full-precision law', 'full precision by one variable']
    >>> {name: round(value, 2) for name, value in found["token law"]["gptq, wikitext"]["logarithms"].coefficients.items()}
    {'ln k': -5.07, 'beta': 0.31, 'gamma': 4.66}
    >>> found["full-precision law"]
    'it takes three sizes of model and eight checkpoints with a full-precision loss; there are 1 and 32'
    """
    out = {"token law": {}}
    for (quantizer, dataset), part in points.groupby(["quantizer", "dataset"], sort=False):
        part = part.reset_index(drop=True)
        law = law_of(part, draws)
        if not isinstance(law, str):
            law["tokens at the added loss"] = {"nats": target, "rows": tokens_of(law, part, target, sizes)}
        out["token law"][", ".join(name for name in (quantizer, dataset) if name) or "all points"] = law
    out["tokens or learning rate"] = effects.tokens_or_rate(points)
    out["predictions"] = attempt(formulas.predictions, points)
    out["full-precision law"] = attempt(full_precision.full_precision_law, points, min(draws, 100))
    out["full precision by one variable"] = single.full_precision_singles(points)
    return out
