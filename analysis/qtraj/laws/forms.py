"""Forms of the law of the added loss: what its logarithm is, by the coefficients' names.

ln(added loss) is a sum of coefficients times terms, such as gamma times -ln(bits). With `zero_at` (a bit-width Z, such as 16) the term
of the bit-width goes to zero there: P^-gamma becomes P^-gamma - Z^-gamma, exp(-P/gamma) becomes exp(-P/gamma) - exp(-Z/gamma)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas

LEAST_RATE = 0.01  # of a run's greatest learning rate: a rate below counts as that, since zero has no logarithm


def logarithm(column: str, sign: int = 1) -> "Callable[[pandas.DataFrame], np.ndarray]":
    """The term sign * ln(column), NaN where that has no value."""

    def term(rows):
        values = rows[column].to_numpy(float)
        return sign * np.log(np.where(values > 0, values, np.nan))

    return term


def rate_of(rows):
    """ln of the learning rate over the run's greatest."""
    peak = np.where(rows.peak_rate > 0, rows.peak_rate.to_numpy(float), np.nan)
    return np.log(np.maximum(rows.learning_rate.to_numpy(float) / peak, LEAST_RATE))


def share_of(rows):
    """Share of the training tokens that were seen since the decay began."""
    return rows.decay_tokens.to_numpy(float) / rows.tokens.to_numpy(float)


TERMS = {
    "ln k": (lambda rows: np.ones(len(rows)), ()),
    "beta": (logarithm("tokens"), ("tokens",)),
    "alpha": (logarithm("parameters", -1), ("parameters",)),
    "gamma": (logarithm("bits", -1), ("bits",)),
    "1/gamma": (lambda rows: -rows.bits.to_numpy(float), ("bits",)),
    "rate": (rate_of, ("learning_rate", "peak_rate")),
    "peak rate": (logarithm("peak_rate"), ("peak_rate",)),
    "decay": (share_of, ("decay_tokens", "tokens")),
    "trace": (logarithm("trace"), ("trace",)),
    "sharpness": (logarithm("sharpness"), ("sharpness",)),
    "distance": (logarithm("distance"), ("distance",)),
    "second order": (logarithm("second_order"), ("second_order",)),
}  # by coefficient: the term, and the columns of points that it needs
LAW = ("beta", "alpha", "gamma")
EXPONENTIAL = ("beta", "alpha", "1/gamma")


@dataclass(frozen=True)
class Form:
    """A form of the law: its coefficients beside ln k, and the bit-width at which the added loss is zero (None: at none)."""

    name: str
    coefficients: tuple = LAW
    zero_at: "float | None" = None

    def without(self, names) -> "Form":
        """The form with fewer coefficients."""
        return Form(self.name, tuple(name for name in self.coefficients if name not in names), self.zero_at)

    @property
    def names(self) -> "list[str]":
        return ["ln k", *self.coefficients]

    @property
    def columns(self) -> "list[str]":
        """The columns of points that the form needs."""
        return list(dict.fromkeys(column for name in self.coefficients for column in TERMS[name][1]))

    def width(self) -> "str | None":
        """The coefficient of the bit-width whose term goes to zero."""
        there = [name for name in ("gamma", "1/gamma") if name in self.coefficients]
        return there[0] if self.zero_at and there else None

    def terms(self, rows: pandas.DataFrame) -> np.ndarray:
        """The terms of points, a column a coefficient."""
        return np.column_stack([TERMS[name][0](rows) for name in self.names])

    def logarithm(self, values: np.ndarray, rows: pandas.DataFrame) -> np.ndarray:
        """ln(added loss in nats a token) at points; values: of the coefficients, in the order of names."""
        found = self.terms(rows) @ np.asarray(values, float)
        return found + self.correction(values, rows)[0] if self.width() else found

    def slopes(self, values: np.ndarray, rows: pandas.DataFrame) -> np.ndarray:
        """Derivatives of logarithm() with respect to the coefficients, a column each."""
        x = self.terms(rows)
        if self.width():
            x[:, self.names.index(self.width())] += self.correction(values, rows)[1]
        return x

    def correction(self, values, rows):
        """What zero_at adds to the logarithm, ln(1 - (P/Z)^gamma) or ln(1 - exp(-(Z - P)/gamma)), and its derivative."""
        g, bits = values[self.names.index(self.width())], rows.bits.to_numpy(float)
        apart = np.log(self.zero_at / bits) if self.width() == "gamma" else self.zero_at - bits
        with np.errstate(all="ignore"):
            left = np.exp(-g * apart)
            return np.log1p(-left), apart * left / (1 - left)


POWER = Form("power of the bit-width")
FORMS = {form.name: form for form in (
    POWER, Form("exponential in the bit-width", EXPONENTIAL), Form("power, zero at 16 bits", LAW, 16.0),
    Form("exponential, zero at 16 bits", EXPONENTIAL, 16.0))}
SHORT = {"power": POWER.name, "exponential": "exponential in the bit-width", "power-16": "power, zero at 16 bits",
         "exponential-16": "exponential, zero at 16 bits"}
