"""Independent runs side by side: which checkpoint is best at a bit-width, and runs at equal full-precision loss."""

from qtraj.runs.decide import decide
from qtraj.runs.matched import Matched, matched, order

__all__ = ["decide", "matched", "order", "Matched"]
