"""The report: one page of HTML of one or several cubes."""

from qtraj.report.page import write

__all__ = ["write"]
