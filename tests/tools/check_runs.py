"""decide and matched on made-up cubes whose truth is known:  check_runs.py FOLDER [--long]

Runs whose added loss at equal full-precision loss grows with a column are ordered so, equal ones are not; intervals of differences hold
as often as they say; the best checkpoint is found and those equal to it are ties. --long: 200 repetitions instead of 15."""

import pathlib
import sys

import numpy as np
import xarray as xr

import qtraj

SEQUENCES = 60
LONG = "--long" in sys.argv


def cube_of(path, slopes, seed, noise=0.02, shifts=None, branch_of=None):
    """Runs of five checkpoints with losses 4 ... 3 plus the run's own shift; added loss 0.1 + slope at every full-precision loss. branch_of: of
    each run; none."""
    rng = np.random.default_rng(seed)
    names = [f"run{i}" for i in range(len(slopes))]
    text = 0.5 * rng.standard_normal(SEQUENCES)  # how hard each sequence is
    full, delta = [], []
    shifts = shifts or [-0.05 * i for i in range(len(slopes))]
    for shift, slope in zip(shifts, slopes):
        base = np.linspace(4, 3, 5) + shift
        f = base[:, None] + text - text.mean() + noise * rng.standard_normal((5, SEQUENCES))
        full.append(f)
        delta.append(0.1 + slope + noise * rng.standard_normal((5, SEQUENCES)))
    full, delta = np.array(full), np.array(delta)
    axes = ("model", "checkpoint")
    cells = axes + ("bits", "quantizer", "dataset")

    def wide(values):
        return (cells, values[:, :, None, None, None])

    step = np.tile(np.arange(1.0, 6), (len(slopes), 1))
    steps = [f"step{k}" for k in range(1, 6)]
    mean = full.mean(-1)
    cube = xr.Dataset({"step": (axes, step), "tokens": (axes, 1e6 * step), "learning_rate": (axes, 0 * step + np.arange(1, len(slopes) + 1)[:, None]),
                       "kind": (axes, np.full(step.shape, "stored", dtype=object)), "checkpoint_name": (axes, np.array([steps] * len(slopes), dtype=object)),
                       "baseline_loss": (axes + ("dataset",), mean[..., None]), "loss": wide((full + delta).mean(-1)), "loss_delta": wide(delta.mean(-1))},
                      coords={"model": names, "branch_of": ("model", np.array(branch_of or [""] * len(slopes), dtype=object)), "checkpoint": np.arange(5),
                              "bits": [3], "quantizer": ["gptq"], "dataset": ["text"]})
    keys = [(m, c) for m in range(len(slopes)) for c in range(5)]

    def rows(first, **more):
        columns = {"model": [names[m] for m, _ in keys], "checkpoint_name": [steps[c] for _, c in keys], "dataset": ["text"] * len(keys)} | more
        table = {name: ("row", np.array(values, dtype=object if isinstance(values[0], str) else float)) for name, values in columns.items()}
        start = first + SEQUENCES * np.arange(len(keys), dtype=float)
        return xr.Dataset(table | {"sequence_start": ("row", start), "sequence_count": ("row", np.full(len(keys), float(SEQUENCES)))})

    losses = np.concatenate([full.ravel(), (full + delta).ravel()])
    path.unlink(missing_ok=True)
    cube.to_netcdf(path, engine="h5netcdf")
    groups = {"checkpoints": rows(0), "cells": rows(full.size, bits=[3.0] * len(keys), quantizer=["gptq"] * len(keys)),
              "sequences": xr.Dataset({"loss": ("sequence", losses)})}
    for name, group in groups.items():
        group.to_netcdf(path, engine="h5netcdf", group=name, mode="a")
    return qtraj.open(path)


def main():
    path = pathlib.Path(sys.argv[1]) / "runs.h5"
    found = qtraj.runs.matched(cube_of(path, [0.01 * i for i in range(6)], 0), "learning_rate", 3, "gptq")
    assert found.concordance == 1 and abs(found.p - 2 / 720) < 1e-12, found
    without = found.added
    cube = cube_of(path, [0.01 * i for i in range(6)] + [0.5, 0.5], 0, shifts=[-0.05 * i for i in range(6)] + [-2, 2], branch_of=[""] * 6 + ["run0", ""])
    found = qtraj.runs.matched(cube, "learning_rate", 3, "gptq")  # run6 branches from run0, run7 ends before the others begin
    assert list(found.added) == list(without) and abs(found.added["run5"] - without["run5"]) < 0.02 and found.concordance == 1, found
    assert list(found.left_out) == ["run7"] and found.left_out["run7"].startswith("full-precision losses of "), found.left_out
    try:
        qtraj.runs.matched(cube_of(path, [0.0, 0.0], 0, shifts=[0, 2]), "learning_rate", 3, "gptq")
        raise AssertionError("runs without a common loss were compared")
    except ValueError as error:
        assert "no two runs have full-precision losses in common: run0 has " in str(error) and ", run1 has " in str(error), error
    held, false, most, ties = 0, 0, 200 if LONG else 15, 0
    for seed in range(most):
        cube = cube_of(path, [0.0, 0.02, 0.0, 0.0], seed)
        found = qtraj.runs.matched(cube, "learning_rate", 3, "gptq")
        change, error = found.differences["run0", "run1"]
        held += abs(change - 0.02) < 1.96 * error
        best = qtraj.runs.decide(cube, 3)
        ends = best[best.checkpoint == "step5"].set_index("run")  # full-precision losses fall by 0.05 from run to run: run3 is best by 0.05
        behind = ends.behind["run2"] - ends.behind["run3"]
        ties += abs(behind - 0.05) < 1.96 * ends.behind_stderr["run2"]
        false += qtraj.runs.order([1, 2, 3, 4], list(found.added.values()))[1] < 0.05
    print(f"95 % intervals hold: matched {held / most:.1%}, decide {ties / most:.1%} of {most}", flush=True)
    for count in (held, ties):
        assert 0.91 * most <= count <= 0.99 * most if LONG else count >= 12, (held, ties, most)  # of 95 % ones fewer than 12 hold once in 500 times
    assert false == 0, false  # the least p of four runs is 2/24
    rng = np.random.default_rng(1)
    p = np.array([qtraj.runs.order(range(6), rng.standard_normal(6))[1] for _ in range(200)])
    assert 0.01 <= (p < 0.05).mean() <= 0.1, (p < 0.05).mean()
    assert abs(qtraj.runs.order(range(12), rng.standard_normal(12))[1] - 0.5) < 0.5 and qtraj.runs.order(range(12), range(12))[1] < 1e-3

    best = qtraj.runs.decide(cube_of(path, [0.0, 0.3, 0.1], 3), 3)  # the ends of the first and the last are equal
    assert set(best.run[:2]) == {"run0", "run2"} and (best.checkpoint[:2] == "step5").all() and best.tie[1], best.head()
    assert not best.tie[2:].any() and best.costs.min() == 0 and best.run[best.costs == 0].item() == "run2", best
    cube = cube_of(path, [0.0, 0.1], 4)
    cube["baseline_tokens"] = cube.baseline_loss * 0 + xr.DataArray([100.0, 200.0], dims="model")
    try:
        qtraj.runs.decide(cube, 3)
        raise AssertionError("losses of other tokens were compared")
    except ValueError as error:
        assert "scored on 100 and 200 tokens" in str(error), error
    print(f"{100 * (p < 0.05).mean():.0f} % of no orders have p < 0.05")


if __name__ == "__main__":
    main()
