"""Results cubes of the program qtraj, their figures, laws and reports.

>>> cube = qtraj.open("two_models.h5")  # an xarray.Dataset; several files become one
>>> figure = qtraj.figures.relative_error(qtraj.select(cube, model="OLMo2-7B", bits=3), width=3.3)
>>> points = qtraj.points(cube)  # a pandas.DataFrame
>>> law = qtraj.laws.token_law(points[points.quantizer == "gptq"], draws=0)
"""

import importlib

from qtraj.cube.files import differences, open, open_group, select
from qtraj.cube.points import points
from qtraj.cube.trajectories import families, progress, trajectories

__all__ = ["open", "select", "open_group", "differences", "points", "progress", "trajectories", "families", "cube", "figures", "laws", "predict", "claims", "report", "runs"]


def __getattr__(name):
    """Folders are imported when they are first used: matplotlib takes a second."""
    if name in ("figures", "laws", "predict", "claims", "report", "runs"):
        return importlib.import_module(f"qtraj.{name}")
    raise AttributeError(f"module 'qtraj' has no attribute {name!r}")
