"""What fit_all found, as blocks in reading order, for a terminal (fits.py) and for a page (report.py)."""

from dataclasses import dataclass

import numpy as np

from qtraj.laws import added_loss, full_precision, single
from qtraj.laws.fit import checkpoints_of


@dataclass
class Block:
    """kind: "summary", "heading", "part", "text", "note", or "table", whose rows begin with the head."""

    kind: str
    text: str = ""
    rows: "list | None" = None


def table(head, rows):
    return Block("table", rows=[head] + rows)


def number(value):
    if value is None or np.isnan(value):
        return "-"
    return "never" if np.isinf(value) else f"{value:.4g}"


def ends(interval):
    return "-" if interval is None or np.isnan(interval[0]) else f"{number(interval[0])} to {number(interval[1])}"


def notes(texts):
    return [Block("note", text) for text in dict.fromkeys(texts)]


def of_fit(fit, published):
    kinds = list(fit.intervals)
    head = [f"{fit.name}, {fit.n} points", "estimate"] + [f"95 %, {kind}" for kind in kinds] + ["published"]
    yield table(head, [[name, number(value)] + [ends(fit.intervals[kind].get(name)) for kind in kinds]
                       + [number(published.get(name))] for name, value in fit.coefficients.items()])
    for name, value in fit.measures.items():
        yield Block("text", f"{name}: {number(value)}")
    yield from notes(fit.notes)


def of_token_law(law):
    """Blocks of one method and text."""
    if isinstance(law, str):
        yield Block("text", f"not fitted: {law}")
        return
    yield from of_fit(law["logarithms"], added_loss.PUBLISHED)
    if isinstance(law["robust"], str):
        yield Block("text", f"robust least squares: {law['robust']}")
    else:
        yield from of_fit(law["robust"], added_loss.PUBLISHED)
    alone = {bits: fit for bits, fit in law["each bit-width alone"].items() if not isinstance(fit, str)}
    if alone:
        names = list(next(iter(alone.values())).coefficients)
        yield table(["each bit-width alone", "points"] + [f"{n} (95 %, HC3)" for n in names],
                    [[f"{bits:g} bits", str(fit.n)] + [f"{number(fit.coefficients.get(n, np.nan))} ({ends(fit.intervals['HC3'].get(n))})" for n in names]
                     for bits, fit in alone.items()])
    target = law["tokens at the added loss"]
    if target["rows"]:
        yield table([f"tokens until {target['nats']:g} nats", "parameters", "tokens",
                     "95 %, bootstrap over checkpoints" if law["logarithms"].spread is None else "95 %, runs differ", "published law"],
                    [[f"{row['bits']:g} bits", number(row["parameters"]), number(row["tokens"]), ends(row["interval"]), number(row["published"])]
                     for row in target["rows"]])
    else:
        yield Block("text", "tokens until an added loss: not given, since the added loss does not grow with tokens here")
    yield from of_singles(law["one variable"], single.PUBLISHED)
    yield from of_forms(law["forms"])
    yield from of_dynamics(law["dynamics"])


def of_singles(singles, published):
    """Exponents of laws of one variable."""
    fits = {name: fit for name, fit in singles.items() if not isinstance(fit, str)}
    rows = [[name, str(fit.n), exponent, number(value), ends(fit.intervals["runs left out"].get(exponent)), number(published.get(exponent))]
            for name, fit in fits.items() for exponent, value in fit.coefficients.items()]
    if rows:
        yield table(["law of one variable", "points", "coefficient", "estimate", "95 %, runs left out", "published"], rows)
    yield from notes([fit for fit in singles.values() if isinstance(fit, str)] + [note for fit in fits.values() for note in fit.notes])


def of_forms(found):
    """Forms of the law, scored on runs that were left out."""
    if isinstance(found, str):
        yield Block("text", f"forms not compared: {found}")
        return
    unit = found["left out at a time"]
    scores = found["scores"]
    if not np.isfinite(list(scores.values())).any():
        yield Block("text", f"forms not compared: the points without one {unit} do not determine any")
        return
    alike = found["alike"]
    yield table([f"form of the law, one {unit} left out at a time", "rms error (ln)"],
                [[name + (" (best)" if alike == [name] else ""), number(score) if np.isfinite(score) else "not determined"] for name, score in scores.items()])
    if len(alike) > 1:
        which = "all" if len(alike) == len(scores) else " and ".join(f'"{name}"' for name in alike)
        yield Block("text", f"no form is the best: {which} predict equally well; --form best takes the first")


def of_dynamics(found):
    """The chosen dynamics law."""
    if isinstance(found, str):
        yield Block("text", f"dynamics law: not fitted: {found}")
        return
    law, unit = found["law"], np.eye(len(found["law"].coefficients))
    intervals = [None] * len(unit) if law.spread is None else np.transpose(law.spread.interval(np.array(list(law.coefficients.values())), unit, False))
    yield table([f"dynamics law, {law.n} points", "estimate", "95 %, runs differ", f"chosen without each {found['left out at a time']}"],
                [[name, number(value), ends(interval),
                  f"{found['chosen as often'][name]:.0%}" if name in found["chosen as often"] else ""] for (name, value), interval in zip(law.coefficients.items(), intervals)])
    yield Block("text", f"rms error of ln(added loss), one {found['left out at a time']} left out at a time with the choice repeated: "
                f"{number(found['rms error of ln(added loss)'])}; of the token law on the same points: {number(found['token law'])}; "
                f"chosen among {', '.join(found['candidates'])}")


def of_effects(found):
    fits = {name: fit for name, fit in found.items() if not isinstance(fit, str)}
    variables = list(dict.fromkeys(name for fit in fits.values() for name in fit.coefficients))
    rows = []
    for name, fit in fits.items():
        intervals = next(iter(fit.intervals.values()))
        rows.append([name, str(fit.n)] + [f"{number(fit.coefficients[v])} ({ends(intervals[v])})" if v in intervals else "" for v in variables]
                    + [number(fit.measures["R2 within"])])
    if rows:
        yield table(["effect (95 %)", "points"] + variables + ["R2 within"], rows)
        kinds = {next(iter(fit.intervals)) for fit in fits.values()}
        yield Block("text", f"intervals: jackknife, {' or '.join(sorted(kinds))} one after the other")
    yield from notes([f"{name}: not fitted: {fit}" for name, fit in found.items() if isinstance(fit, str)]
                     + [note for fit in fits.values() for note in fit.notes])


def of_predictions(found):
    if isinstance(found, str):
        yield Block("text", f"not scored: {found}")
        return
    rows = []
    for name, score in found["scores"].items():
        if score is None:
            rows.append([name, "not measured", "", "", ""])
            continue
        error = score["rms error of ln(relative error)"]
        formula = ", ".join(f"{variable} {value:+.3g}" for variable, value in score["coefficients"].items())
        rows.append([name, str(score["n"]), number(error), number(np.exp(error)), formula])
    yield table([f"one {found['left out at a time']} left out at a time", "points", "rms error (ln)", "as a factor", "ln(relative error) = constant of the method ..."], rows)
    yield from notes(found["notes"])


def blocks(found):
    """Everything that fit_all found."""
    yield Block("heading", "Token law: added loss = k D^beta / (N^alpha P^gamma), nats a token")
    for name, law in found["token law"].items():
        yield Block("part", name)
        yield from of_token_law(law)
    yield Block("heading", "Tokens or learning rate: partial effects on ln(relative error), fixed effects of (run, method, bits, text)")
    yield from of_effects(found["tokens or learning rate"])
    yield Block("heading", "Predicting the relative error of what was not fitted")
    yield from of_predictions(found["predictions"])
    yield Block("heading", "Full-precision law: L = ((Nc/N)^(alpha_N/alpha_D) + Dc/D)^alpha_D")
    law = found["full-precision law"]
    if isinstance(law, str):
        yield Block("text", f"not fitted: {law}")
    else:
        yield from of_fit(law, full_precision.PUBLISHED)
    yield from of_singles(found["full precision by one variable"], {})


def counted(count, what):
    return f"{count} {what}{'' if count == 1 else 's'}"


def in_words(points, dropped):
    """What points there are, and a note for each reason why some were left out."""
    checkpoints = len(np.unique(checkpoints_of(points)))
    return [Block("summary", f"{counted(len(points), 'point')}: {counted(points.family.nunique(), 'training run')}, {points.model.nunique()} with branches, "
                  f"{counted(checkpoints, 'checkpoint')}")] + notes(f"left out: {count} {reason}" for reason, count in dropped.items())
