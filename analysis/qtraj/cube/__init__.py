"""Results cubes: opening and joining them, the order of their checkpoints, and their points as a table."""

from qtraj.cube import accuracy, activations, files, paired, parts, points, trajectories

__all__ = ["accuracy", "activations", "files", "paired", "parts", "points", "trajectories"]
