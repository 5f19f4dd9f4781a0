"""Results cubes: opening and joining them, the order of their checkpoints, and their points as a table."""

from qtraj.cube import accuracy, files, paired, points, trajectories

__all__ = ["accuracy", "files", "paired", "points", "trajectories"]
