"""Writes results cubes with synthetic numbers, in qtraj's format, for tests of the figures:  make_cubes.py FOLDER

one.h5             one model, three checkpoints; replicates of one method at one bit-width
two_models.h5      two unrelated models of different length, one of them with two branches; movement of the weights; curves of training of one and a branch
six_methods.h5     six methods with long names at 2, 3, 4 and 8 bits
changes.h5         gptq, rtn, and changes of their norm in other directions
two_datasets.h5    two texts; accuracies on tasks
two_sizes.h5       two models of different size, quantized to 2, 3 and 4 bits, with accuracies
many.h5            40 checkpoints of a model with a long name, a spectrum, gradients, movement and per-layer errors of 32 blocks
unconverged.h5     curvature whose sharpness has not converged at some checkpoints; no learning rates, only steps
names.h5           checkpoints of which only the names are known
surfaces.h5        loss surfaces of all kinds, one of 7 x 7 points, one of 25 x 25
averages.h5        a run with two series of averages and the losses of sequences; replicates as in one.h5, accuracies on one task
activations.h5     a run and a branch whose weights, inputs, keys and values are quantized alone and together; outliers of four layers
odd.h5             names and messages with the characters of HTML and of formulas, failed and pending cells
"""

import pathlib
import sys

import numpy as np
import xarray as xr

METHODS = ["rtn", "gptq"]
SIX = ["rtn", "gptq", "gptq-group-aware-order-g64", "awq-free", "hqq", "gptq-shared-hessian-damping-0.05"]
KINDS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
         "mlp.down_proj"]


def run(name, n, first=0, tokens=4e9, decay=0.3, branch_of="", parameters=3e9):
    """A training run: n checkpoints, learning rate constant and then falling to zero."""
    at = np.arange(1, n + 1) / n
    rate = np.minimum(1, (1 - at) / decay) * 4e-4
    return {"name": name, "branch_of": branch_of, "parameters": parameters, "step": first + 1000.0 * np.arange(1, n + 1), "rate": rate,
            "tokens": first * tokens / 1000 / n + tokens * at}


def of_checkpoints(runs, rng):
    """Variables by (model, checkpoint)."""
    length = max(len(r["step"]) for r in runs)
    shape = (len(runs), length)
    out = {name: np.full(shape, np.nan) for name in ("step", "tokens", "learning_rate", "sharpness", "trace", "parameters_non_embedding",
                                                     "sharpness_residual", "trace_stderr", "sharpness_converged")}
    names, kind = np.full(shape, "", dtype=object), np.full(shape, "", dtype=object)
    for i, r in enumerate(runs):
        n = len(r["step"])
        names[i, :n] = [f"step{int(step):06d}" for step in r["step"]]
        kind[i, :n] = "stored"
        out["step"][i, :n], out["tokens"][i, :n], out["learning_rate"][i, :n] = r["step"], r["tokens"], r["rate"]
        out["sharpness"][i, :n] = 10 + 3 * rng.standard_normal(n)
        out["sharpness_residual"][i, :n] = 0.02
        out["parameters_non_embedding"][i, :n] = r["parameters"]
        out["sharpness_converged"][i, :n] = 1
        out["trace"][i, :n] = 500 + 800 * (1 - r["rate"] / 4e-4) + 30 * rng.standard_normal(n)
        out["trace_stderr"][i, :n] = 25
    out = {name: (("model", "checkpoint"), values) for name, values in out.items()}
    out["checkpoint_name"] = (("model", "checkpoint"), names)
    out["kind"] = (("model", "checkpoint"), kind)
    return out


def cube_of(runs, methods=METHODS, bits=(3, 4), datasets=("wikitext",), seed=0):
    rng = np.random.default_rng(seed)
    data = of_checkpoints(runs, rng)
    length = data["step"][1].shape[1]
    shape = (len(runs), length, len(bits), len(methods), len(datasets))
    axes = ("model", "checkpoint", "bits", "quantizer", "dataset")
    there = np.isfinite(data["step"][1])
    loss = 3 + 3 * np.exp(-np.arange(length) / max(1, length / 6))
    baseline = np.where(there[:, :, None], loss[None, :, None] + 0.2 * np.arange(len(datasets)), np.nan)
    rate = np.nan_to_num(data["learning_rate"][1])
    grow = (0.3 + np.arange(length) / length)[None, :] * (1.6 - rate / 4e-4)
    scale = np.array([4.0 ** (3 - b) for b in bits])[None, None, :, None, None]
    better = np.array([1.7 ** -k for k in range(len(methods))])[None, None, None, :, None]
    relative = 0.04 * grow[:, :, None, None, None] * scale * better * np.exp(0.1 * rng.standard_normal(shape))
    relative = np.where(there[:, :, None, None, None], relative, np.nan)
    delta = relative * baseline[:, :, None, None, :]
    data |= {"loss": (axes, baseline[:, :, None, None, :] + delta)}
    data |= {"baseline_loss": (axes[:2] + axes[4:], baseline), "baseline_loss_stderr": (axes[:2] + axes[4:], 0.01 * baseline),
             "loss_relative": (axes, relative), "loss_relative_stderr": (axes, 0.05 * relative), "loss_delta": (axes, delta),
             "loss_delta_stderr": (axes, 0.05 * delta), "kl_divergence": (axes, 1.1 * delta),
             "top1_agreement": (axes, np.exp(-3 * delta)),
             "bits_per_weight": (axes[:4], 0 * delta[..., 0] + np.array(bits)[:, None] + 0.25 * np.arange(1, 1 + len(methods)))}
    cells = delta[..., 0]
    data |= {"first_order": (axes[:4], 0.05 * cells), "second_order": (axes[:4], 0.8 * cells),
             "true_difference": (axes[:4], cells), "weight_distance": (axes[:4], 30 * np.sqrt(cells))}
    return xr.Dataset(data, coords={"model": [r["name"] for r in runs],
                                    "branch_of": ("model", np.array([r["branch_of"] for r in runs], dtype=object)),
                                    "checkpoint": np.arange(length),
                                    "bits": list(bits), "quantizer": list(methods), "dataset": list(datasets)})


def with_replicates(cube):
    """Replicates of the last method at the lowest bit-width, with a deviation of 0.3 times the added loss."""
    there = (cube.quantizer == cube.quantizer[-1]) & (cube.bits == cube.bits[0])
    for name in ("loss_relative", "loss_delta"):
        cube[f"{name}_replicate_std"] = (0.3 * cube[name]).where(there)
    steps = xr.DataArray([-0.3, 0.3], dims="replicate", coords={"replicate": [1, 2]})  # and 0, the cell
    cube["loss_replicate"] = (cube.loss + cube.loss_delta * steps).where(there).transpose(*cube.loss.dims[:4], "replicate", "dataset")
    return cube


def with_tasks(cube, tasks=("arc_challenge", "piqa", "mmlu"), items=400):
    """Accuracies, of which one failed: each item has a difficulty, and quantization moves its score by noise that grows with the
    relative error."""
    rng = np.random.default_rng(5)
    shape = cube.loss_relative.shape[:4] + (len(tasks),)
    axes = cube.loss_relative.dims[:4] + ("task",)
    error = cube.loss_relative.values[..., 0][..., None, None]
    trained = np.linspace(-0.5, 1, shape[1])[None, :, None, None, None, None]
    before = np.broadcast_to(trained + rng.standard_normal((len(tasks), items)), shape[:2] + (1, 1) + shape[4:] + (items,))
    after = before + 4 * error * (rng.standard_normal(shape + (items,)) - 0.3)
    there = np.broadcast_to(np.isfinite(error[..., 0]), shape).copy()
    status, message = np.where(there, 1, 3).astype(np.uint8), np.full(shape, "", dtype=object)
    failed = (0, 1, len(cube.bits) - 1, 0, len(tasks) - 1)
    status[failed], message[failed], there[failed] = 2, "a choice is too long", False

    def known(values, where=there):
        return np.where(where, values, np.nan)

    right, change = before > 0, (after > 0).astype(int) - (before > 0)
    accuracy, full = known((after > 0).mean(-1)), known(right.mean(-1), there[:, :, :1, :1])
    cells = {"accuracy": accuracy, "items": known(items), "items_lost": known((change < 0).sum(-1)), "items_gained": known((change > 0).sum(-1)),
             "accuracy_degradation": (full - accuracy) / (1 - full), "accuracy_stderr": np.sqrt(accuracy * (1 - accuracy) / (items - 1)),
             "mcnemar_p": known(rng.uniform(0, 0.2, shape))}
    stored = {"accuracy": full, "accuracy_stderr": np.sqrt(full * (1 - full) / (items - 1)), "items": known(items, there[:, :, :1, :1]),
              "items_truncated": known(7, there[:, :, :1, :1])}
    cube = cube.assign({name: (axes, np.broadcast_to(values, shape)) for name, values in cells.items()}
                       | {f"baseline_{name}": (axes[:2] + axes[4:], np.broadcast_to(values, shape[:2] + (1, 1) + shape[4:])[:, :, 0, 0])
                          for name, values in stored.items()}).assign_coords(task=list(tasks))
    cube["task_status"], cube["task_message"] = (axes, status), (axes, message)
    for name in ("accuracy", "accuracy_degradation", "baseline_accuracy"):
        cube[f"{name}_mean"] = cube[name].mean("task", skipna=False)
    for name in ("accuracy", "baseline_accuracy"):
        cube[f"{name}_mean_stderr"] = np.sqrt((cube[f"{name}_stderr"] ** 2).sum("task", skipna=False)) / len(tasks)
    return cube


def layers_of(cube, blocks, quantizer):
    """Per-layer errors of one method's cells."""
    rng = np.random.default_rng(1)
    names = [f"model.layers.{b}.{kind}.weight" for b in range(blocks) for kind in KINDS]
    model = str(cube.model.values[0])
    checkpoints = [str(n) for n in cube.checkpoint_name.sel(model=model).values if n]
    cells = [(c, int(b)) for c in checkpoints for b in cube.bits.values]
    errors = np.array([[10.0 ** (-b / 2) * (1 + i / 40) for i in range(len(names))] for _, b in cells])
    return xr.Dataset({"relative_error": (("cell", "layer"), errors * np.exp(0.2 * rng.standard_normal(errors.shape)))},
                      coords={"cell": np.arange(len(cells)), "layer": np.array(names, dtype=object),
                              "model": ("cell", np.array([model] * len(cells), dtype=object)),
                              "checkpoint_name": ("cell", np.array([c for c, _ in cells], dtype=object)),
                              "bits": ("cell", [b for _, b in cells]),
                              "quantizer": ("cell", np.array([quantizer] * len(cells), dtype=object))})


def movement_of(cube, blocks):
    """Adds the movement of the weights to the cube, and returns that of the first model's tensors."""
    rng = np.random.default_rng(4)
    there = np.isfinite(cube.step.values)
    there[:, 0] = False
    moved = np.where(there, 0.02 + 0.3 * cube.learning_rate.values / 4e-4, np.nan)
    axes = ("model", "checkpoint")
    for name, factor in (("movement", 40), ("movement_relative", 1), ("movement_quantized_relative", 1.1)):
        cube[name] = (axes, factor * moved)
    steps = moved[:, :, None] * (2.0 ** cube.bits.values - 1) / 5
    cube["movement_in_steps"] = (axes + ("bits",), steps)
    tensors = [f"model.layers.{b}.{kind}.weight" for b in range(blocks) for kind in KINDS]
    rows = [(tensor, c, k) for c in np.flatnonzero(there[0]) for tensor in tensors for k in range(cube.sizes["bits"])]
    values = np.array([steps[0, c, k] for _, c, k in rows]) * np.exp(0.3 * rng.standard_normal(len(rows)))
    names = cube.checkpoint_name.values[0]
    return xr.Dataset({"model": ("row", np.array([str(cube.model.values[0])] * len(rows), dtype=object)),
                       "checkpoint_name": ("row", np.array([str(names[c]) for _, c, _ in rows], dtype=object)),
                       "tensor": ("row", np.array([tensor for tensor, _, _ in rows], dtype=object)),
                       "bits": ("row", np.array([int(cube.bits.values[k]) for _, _, k in rows])), "in_steps": ("row", values)},
                      coords={"row": np.arange(len(rows))})


def weights_of(cube, count=40):
    """Adds movement_from to the cube, and returns single weights of its stored checkpoints: they move by 0.02 of the learning rate over 4e-4,
    and are rounded to multiples of 2^(1 - bits)."""
    rng, rows = np.random.default_rng(5), []
    names = cube.checkpoint_name.values.astype(object)
    before = np.concatenate([np.full((len(names), 1), "", dtype=object), names[:, :-1]], axis=1)
    cube["movement_from"] = (("model", "checkpoint"), np.where(names == "", "", before))
    for m, model in enumerate(map(str, cube.model.values)):
        there = [c for c in range(cube.sizes["checkpoint"]) if names[m, c]]
        rate = np.nan_to_num(cube.learning_rate.values[m, there], nan=4e-4) / 4e-4
        weight = 0.3 * rng.standard_normal(count) + np.cumsum(0.02 * rate[:, None] * rng.standard_normal((len(there), count)), axis=0)
        for k, c in list(enumerate(there))[1:]:
            for bits in map(int, cube.bits.values):
                step = 2.0 ** (1 - bits)
                rows += [(model, str(names[m, c]), f"model.layers.{i // 8}.mlp.up_proj.weight", 100 * i, bits, weight[k - 1, i], weight[k, i],
                          step * np.rint(weight[k, i] / step)) for i in range(count)]
    columns = ("model", "checkpoint_name", "tensor", "element", "bits", "weight_before", "weight", "weight_rounded")
    return xr.Dataset({name: ("row", np.array(values, dtype=object if isinstance(values[0], str) else float)) for name, values in zip(columns, zip(*rows))},
                      coords={"row": np.arange(len(rows))})


def with_gradients(cube):
    """Mean and variance of gradients: the noise outgrows the mean; of the last checkpoint the signal is lost."""
    there = np.isfinite(cube.step.values)
    mean = np.where(there, 0.9 * np.exp(-3 * np.arange(cube.sizes["checkpoint"]) / cube.sizes["checkpoint"]), np.nan)
    signal = np.where(there, mean**2, np.nan)
    signal[:, -1] *= -0.01
    axes = ("model", "checkpoint")
    numbers = {"mean_norm": mean, "variance": 0.4 + 0 * mean, "signal": signal, "signal_to_noise": signal / 0.4}
    return cube.assign({f"gradient_{name}": (axes, values) for name, values in numbers.items()})


PARTS = {"none-a4": "a", "none-kv4": "k", "none-a4-kv4": "ak", "rtn": "w", "rtn-a4": "wa", "rtn-kv4": "wk", "rtn-a4-kv4": "wak"}
SITES = ["qkv", "o", "up", "down", "keys", "values", "residual"]


def with_activations(runs):
    """Cube and groups: the parts add 0.02 (w), 0.05 (a) and 0.01 (k) times what grows with training, those together 10 % more than their sum."""
    rng, names = np.random.default_rng(6), list(PARTS)
    cube = cube_of(runs, names, (4, 16))
    weights = np.array([name.startswith("rtn") for name in names])
    there = xr.DataArray((np.array([4, 16])[:, None] == 4) == weights, dims=("bits", "quantizer"))
    added = {name: sum({"w": 0.02, "a": 0.05, "k": 0.01}[part] for part in parts) * (1.1 if len(parts) > 1 else 1) for name, parts in PARTS.items()}
    grow = 1 + cube.checkpoint / 4
    delta = (grow * xr.DataArray([added[name] for name in names], dims="quantizer")).where(there & np.isfinite(cube.step))
    delta = delta.expand_dims(dataset=cube.dataset).transpose(*cube.loss_delta.dims)
    cube = cube.assign(loss_delta=delta, loss_delta_stderr=0.1 * delta, loss=cube.baseline_loss + delta, loss_relative=delta / cube.baseline_loss,
                       loss_relative_stderr=0.1 * delta / cube.baseline_loss)
    for name, width in (("activation_bits", "a"), ("key_bits", "k"), ("value_bits", "k")):
        cube = cube.assign_coords({name: ("quantizer", [4 if width in PARTS[one] else 16 for one in names])})
    shape = cube.step.shape + (4, len(SITES))
    rise = np.where(np.isfinite(cube.step.values), 1 + np.arange(shape[1]) / shape[1], np.nan)[:, :, None, None]
    for name, value in (("kurtosis", 4), ("over_median", 12), ("error_4", 0.1)):
        values = value * rise * np.exp(0.5 * np.arange(len(SITES)) + 0.05 * rng.standard_normal(shape))
        values[..., -1] *= np.nan if name == "error_4" else 1
        cube["outlier_" + name] = (("model", "checkpoint", "block", "site"), values)
    cube = cube.assign_coords(block=np.arange(4), site=SITES)
    rows, losses = {"checkpoints": [], "cells": []}, []
    for model, c in zip(*np.nonzero(np.isfinite(cube.step.values))):
        key = str(cube.model.values[model]), str(cube.checkpoint_name.values[model, c])
        full = float(cube.baseline_loss.values[model, c, 0]) + rng.standard_normal(20)
        own = {part: 1 + 0.3 * rng.standard_normal(20) for part in "wak"}
        every = [("checkpoints", (), full)]
        for name, parts in PARTS.items():
            of = sum({"w": 0.02, "a": 0.05, "k": 0.01}[part] * own[part] / own[part].mean() for part in parts) * (1.1 if len(parts) > 1 else 1)
            every.append(("cells", (4.0 if "w" in parts else 16.0, name), full + float(grow[c]) * of))
        for group, more, values in every:
            rows[group].append((*key, str(cube.dataset.values[0]), float(20 * len(losses)), 20.0, *more))
            losses.append(values)
    groups = {}
    for group, lines in rows.items():
        columns = ["model", "checkpoint_name", "dataset", "sequence_start", "sequence_count", "bits", "quantizer"][:len(lines[0])]
        groups[group] = xr.Dataset({name: ("row", np.array(values, dtype=object if isinstance(values[0], str) else float))
                                    for name, values in zip(columns, zip(*lines))})
    return cube, {**groups, "sequences": xr.Dataset({"loss": ("sequence", np.concatenate(losses))})}


def spectrum_of(cube):
    rng = np.random.default_rng(2)
    model, rows = str(cube.model.values[0]), []
    for i, name in enumerate(n for n in cube.checkpoint_name.sel(model=model).values if n):
        for r in range(2):
            nodes = np.sort(np.append(rng.exponential(1.0 + i / 20, 18), [-0.5, 12.0 + i / 4]))
            weights = np.exp(-nodes.clip(0)) / np.exp(-nodes.clip(0)).sum()
            rows += [(model, str(name), r, node, weight) for node, weight in zip(nodes, weights)]
    columns = list(zip(*rows))
    return xr.Dataset({"model": ("row", np.array(columns[0], dtype=object)),
                       "checkpoint_name": ("row", np.array(columns[1], dtype=object)),
                       "run": ("row", np.array(columns[2], dtype=float)), "node": ("row", np.array(columns[3])),
                       "weight": ("row", np.array(columns[4]))}, coords={"row": np.arange(len(rows))})


def surface(name, plane, model, n, exact):
    """Rows of one surface: exact points, then an n x n grid of a bowl with a steep side."""
    side = np.linspace(-1, 1.5, n)
    rows = [(a, b, label, -1, -1) for label, a, b in exact]
    rows += [(a, b, "", i, j) for j, b in enumerate(side) for i, a in enumerate(side)]
    return [{"surface": name, "plane": plane, "model": model, "quantizer": "gptq", "dataset": "wikitext", "bits": 3.0,
             "point": label, "column": float(i), "grid_row": float(j), "a": a, "b": b, "share_1": 0.8, "share_2": 0.15,
             "loss": 3 + a * a + 2 * b * b + np.exp(3 * a) / 20} for a, b, label, i, j in rows]


def surfaces_of(model, trajectory):
    rows = surface("quantization", "quantization", model, 7, [("step003000", 0, 0), ("step002000", -0.5, 0), ("quantized", 0.2, 0.6)])
    rows += surface("trajectory", "trajectory", model, 25,
                    [(name, -0.8 + 1.6 * k / len(trajectory), 0.4 * np.sin(k)) for k, name in enumerate(trajectory)])
    rows += surface("random", "random", model, 7, [("step003000", 0, 0)])
    return xr.Dataset({key: ("row", np.array([row[key] for row in rows],
                                             dtype=object if isinstance(rows[0][key], str) else float)) for key in rows[0]},
                      coords={"row": np.arange(len(rows))})


def with_averages(cube):
    """The cube of one model with its last three checkpoints made into averages, and groups with the losses of sequences."""
    rng, model = np.random.default_rng(3), str(cube.model.values[0])
    n = cube.sizes["checkpoint"]
    for name in ("average", "recipe"):
        cube[name] = (("model", "checkpoint"), np.full((1, n), "", dtype=object))
    for k, (place, average, of) in enumerate([(n - 3, "lawa", n - 5), (n - 2, "lawa", n - 4), (n - 1, "soup", n - 4)]):
        for name in ("step", "tokens", "learning_rate"):
            cube[name][0, place] = cube[name][0, of]
        cube["average"][0, place], cube["kind"][0, place] = average, "average"
        cube["checkpoint_name"][0, place] = f"{average}@{k}"
    return cube, {"checkpoints": sequences_of(cube, rng, model, []), "cells": sequences_of(cube, rng, model, ["bits", "quantizer"]),
                  "sequences": xr.Dataset({"loss": ("sequence", 3 + rng.standard_normal(SEQUENCES))})}


SEQUENCES = 40


def sequences_of(cube, rng, model, axes):
    """A row for each checkpoint, or cell, with places in the losses of sequences."""
    keys = [(c,) for c in cube.checkpoint_name.values[0]]
    for axis in axes:
        keys = [key + (value,) for key in keys for value in cube[axis].values]
    columns = {name: ("row", np.array(values, dtype=object if isinstance(values[0], str) else float))
               for name, values in zip(["checkpoint_name"] + axes, zip(*keys))}
    text = str(cube.dataset.values[0])
    start = rng.integers(0, SEQUENCES - 20, len(keys)).astype(float)
    return xr.Dataset(columns | {"model": ("row", np.array([model] * len(keys), dtype=object)),
                                 "dataset": ("row", np.array([text] * len(keys), dtype=object)),
                                 "sequence_start": ("row", start), "sequence_count": ("row", np.full(len(keys), 20.0))})


def curves_of(runs, n=200):
    """What the table of steps of a training says, of the runs."""
    rng, parts = np.random.default_rng(3), []
    for r in runs:
        first = r["tokens"][0] - (r["tokens"][1] - r["tokens"][0])
        at = first + (r["tokens"][-1] - first) * np.arange(1, n + 1) / n
        loss = 2 + 8 * (at / 4e9 + 0.02) ** -0.3
        parts.append({"model": np.full(n, r["name"], dtype=object), "step": at / 4e6, "steps": np.full(n, 20.0), "tokens": at,
                      "learning_rate": np.interp(at, r["tokens"], r["rate"]) * np.minimum(1, at / 2e8), "training_loss": loss + 0.1 * rng.standard_normal(n),
                      "training_gradient_norm": np.ones(n), "validation_loss": np.where(np.arange(n) % 25 == 24, loss, np.nan),
                      "tokens_per_second": np.full(n, 1e4)})
    return xr.Dataset({name: ("row", np.concatenate([part[name] for part in parts])) for name in parts[0]})


def odd():
    """A cube whose texts would change a page if they were not escaped, with cells that failed or are pending."""
    cube = cube_of([run('<b>bold</b> & "quoted" $\\x$', 4)], datasets=("</table><script>alert(1)</script>",))
    shape = cube.loss_relative.isel(dataset=0).shape
    status, message = np.ones(shape, dtype=np.uint8), np.full(shape, "", dtype=object)
    status[0, 1, 0, 1], message[0, 1, 0, 1], status[0, 2, 0, 1] = 2, "<img src=x onerror=alert(2)> is not finite", 0
    cube["status"], cube["message"] = (cube.loss_relative.dims[:4], status), (cube.loss_relative.dims[:4], message)
    for name in ("loss", "loss_relative", "loss_relative_stderr", "loss_delta", "loss_delta_stderr"):
        cube[name] = cube[name].where(cube.status == 1)
    return cube


def write(folder, name, cube, **groups):
    path = folder / f"{name}.h5"
    cube.to_netcdf(path, engine="h5netcdf")
    for group, data in groups.items():
        data.to_netcdf(path, engine="h5netcdf", group=group, mode="a")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, "one", with_replicates(cube_of([run("SmolLM3-3B", 3)])))
    runs = [run("SmolLM3-3B", 9), run("cooldown of it", 4, first=3000, branch_of="SmolLM3-3B"),
            run("OLMo2-7B", 14, tokens=2e10), run("SmolLM3-3B-soup-ingredient-2", 5, first=6000, branch_of="SmolLM3-3B")]
    two = with_gradients(cube_of(runs))
    write(folder, "two_models", two, movement_grids=movement_of(two, 16), movement_weights=weights_of(two), training_curves=curves_of(runs[:2]))
    write(folder, "six_methods", cube_of([run("OLMo2-1B", 12)], SIX, (2, 3, 4, 8)))
    sizes = with_tasks(cube_of([run("OLMo2-1B", 4, parameters=1e9), run("OLMo2-7B", 4, parameters=6.5e9)], bits=(2, 3, 4)))
    sizes["parameters"] = sizes.parameters_non_embedding * xr.DataArray([1.4, 1.1], dims="model")
    for name in ("loss", "baseline_loss"):
        sizes[name] = sizes[name] - xr.DataArray([0.0, 0.3], dims="model")
    write(folder, "two_sizes", sizes)
    write(folder, "changes", cube_of(runs[:2], ["gptq", "rtn", "noise", "permuted"]))
    write(folder, "two_datasets", with_tasks(cube_of(runs[:2], datasets=("refinedweb", "a-text-with-a-rather-long-name"))))
    many = with_gradients(cube_of([run("a-model-with-a-name-that-is-longer-than-a-panel-is-wide-7B-step-ablation", 40)]))
    write(folder, "many", many, layers=layers_of(many, 32, "gptq"), spectral_density=spectrum_of(many), movement_grids=movement_of(many, 32), movement_weights=weights_of(many))
    plain = cube_of(runs[:1])
    unsure = plain.checkpoint % 3 > 0
    plain["sharpness_converged"] = plain.sharpness_converged.where(~unsure, 0)
    plain["sharpness_residual"] = plain.sharpness_residual.where(~unsure, 0.3 * plain.sharpness)
    plain["learning_rate"] = plain.learning_rate * np.nan
    plain["tokens"] = plain.tokens * np.nan
    write(folder, "unconverged", plain)
    names = plain.isel(checkpoint=slice(0, 3)).drop_vars(("sharpness", "trace"))
    names["step"] = names.step * np.nan
    write(folder, "names", names)
    first = cube_of(runs[:1])
    averaged, groups = with_averages(with_tasks(with_replicates(cube_of([run("SmolLM3-3B", 9)], bits=(2, 3, 8))), ("social_iqa",)))
    write(folder, "averages", averaged, **groups)
    activations, groups = with_activations(runs[:2])
    write(folder, "activations", activations, **groups)
    write(folder, "odd", odd())
    write(folder, "surfaces", first, surfaces=surfaces_of("SmolLM3-3B", [str(n) for n in first.checkpoint_name.values[0]]))


if __name__ == "__main__":
    main()
