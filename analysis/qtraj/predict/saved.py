"""A fitted law in a file of its own (JSON): what predictions need, and nothing of the points but their ranges."""

import importlib.metadata
import json
import os
from dataclasses import asdict, dataclass, field

import numpy as np

from qtraj.laws import added_loss, full_precision
from qtraj.laws.fit import Fit
from qtraj.laws.forms import TERMS, Form
from qtraj.laws.spread import Spread

FORMAT = "qtraj law 1"
MATRICES = ("covariance", "of_runs")  # of a Spread


@dataclass
class Law:
    """A law of the added loss. values: of the coefficients in the order of form.names; draws: bootstrapped ones, a row each; ranges:
    smallest and largest value of each column of the points, by column; full_precision: coefficients of the law of the full-precision
    loss, None where it was not fitted."""

    form: Form
    values: np.ndarray
    spread: "Spread | None" = None
    draws: "np.ndarray | None" = None
    ranges: dict = field(default_factory=dict)
    full_precision: "dict | None" = None
    about: dict = field(default_factory=dict)  # method, text, points, runs, version, notes

    @property
    def fixed(self) -> dict:
        """Columns of size, tokens and bit-width that the law does not depend on: the only value that its points had."""
        known = {column for name in self.form.coefficients for column in TERMS[name][1]}
        return {name: ends[0] for name, ends in self.ranges.items() if name in added_loss.COLUMNS and name not in known and ends[0] == ends[1]}


PUBLISHED = Law(Form("arXiv 2411.17691, Eq. 8"), np.array([added_loss.PUBLISHED[name] for name in ("ln k", "beta", "alpha", "gamma")]),
                ranges={"parameters": (85056000.0, 11327027200.0), "tokens": (1.07e9, 2.06e11), "bits": (2.0, 4.0)},
                full_precision=full_precision.PUBLISHED, about={"method": "gptq", "text": "RefinedWeb", "version": "published"})


def version() -> str:
    """Of the package, where it is installed."""
    try:
        return importlib.metadata.version("qtraj")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def law_of(fit: Fit, full: "Fit | None" = None, **about) -> Law:
    """The law of a fit (laws.fit_form), with the full-precision law if there is one.

    >>> points = qtraj.points("two_models.h5")
    >>> law = qtraj.predict.law_of(qtraj.laws.token_law(points[points.quantizer == "gptq"].reset_index(drop=True), draws=0))
    >>> law.form.coefficients, law.fixed
    (('beta', 'gamma'), {'parameters': 3000000000.0})
    """
    return Law(fit.form, np.array(list(fit.coefficients.values())), fit.spread, fit.draws, dict(fit.ranges),
               full.coefficients if full else None, {"points": fit.n, "version": version(), "notes": list(fit.notes), **about})


def save(law: Law, path: "str | os.PathLike") -> None:
    """Writes the law as JSON."""
    spread = {key: value for key, value in asdict(law.spread).items() if key not in MATRICES} if law.spread else None
    said = {"format": FORMAT, "form": asdict(law.form), "coefficients": dict(zip(law.form.names, map(float, law.values))),
            **{name.replace("_", " "): getattr(law.spread, name).tolist() if law.spread else None for name in MATRICES}, "spread": spread,
            "draws": law.draws.tolist() if law.draws is not None else None, "ranges": law.ranges, "full-precision law": law.full_precision,
            "about": law.about}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(said, file, indent=1)
        file.write("\n")


def load(path: "str | os.PathLike") -> Law:
    """The law of a file that save() wrote; `published` is that of arXiv 2411.17691. ValueError: it is no such file.

    >>> qtraj.predict.load("published").values.round(4)
    array([-4.0745,  0.5251,  0.2261,  5.4967])
    """
    if str(path) == "published":
        return PUBLISHED
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
        if said["format"] != FORMAT:
            raise ValueError(f"its format is {said['format']}")
        form = Form(said["form"]["name"], tuple(said["form"]["coefficients"]), said["form"]["zero_at"])
        spread = Spread(**said["spread"], **{name: np.array(said[name.replace("_", " ")]) for name in MATRICES}) if said["spread"] else None
        return Law(form, np.array([said["coefficients"][name] for name in form.names]), spread,
                   np.array(said["draws"]) if said["draws"] is not None else None,
                   {name: tuple(ends) for name, ends in said["ranges"].items()}, said["full-precision law"], said["about"])
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a law that fits.py --save wrote: {error}") from None
