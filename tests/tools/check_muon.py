"""Takes the steps of a run by Muon again in numpy, in float64:  check_muon.py OUTPUT/RUN

The run keeps the state of every step. Of each step the gradient follows from two momenta, and the weights that it makes from the definition
(github.com/KellerJordan/Muon; the RMS of arXiv 2502.16982; AdamW as torch has it). Exits with 1 if an update differs."""
import csv
import json
import pathlib
import sys

import numpy as np

from safetensors_reader import load

run = pathlib.Path(sys.argv[1])
o = json.loads((run / "run.json").read_text())["optimizer"]
rates = [float(row["learning_rate"]) for row in csv.DictReader((run / "steps.csv").open())]
last = len(rates)
states = [load(run / f"state/step{k:06d}.safetensors") for k in range(1, last + 1)]
tensors, first = load(run / f"step{last:06d}" / "model.safetensors"), load(run / "step000000" / "model.safetensors")
(beta1, beta2), mu = o["betas"], o["momentum"]
assert o["kind"] == "muon" and mu == 0.95 and last >= 5, o


def place(values):
    """Where the state has the tensor: its values are nowhere else."""
    w = states[-1]["w"]
    found = [at for at in np.flatnonzero(w == values[0]) if np.array_equal(w[at:at + len(values)], values)]
    assert len(found) == 1, found
    return slice(found[0], found[0] + len(values))


def orthogonal(g):
    """By the eigenvectors of g gᵀ: the polynomial of each singular value, five times."""
    u, s, vt = np.linalg.svd(g / (np.linalg.norm(g) + 1e-7), full_matrices=False)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u * s @ vt


def step_of_muon(w, g, m, shape, rate, decay):
    direction = orthogonal((g + mu * (m - g)).reshape(shape))
    size = 0.2 * max(shape) ** 0.5 if o["scale"] == "rms" else max(1, shape[0] / shape[1]) ** 0.5
    return w * (1 - rate * decay) - rate * size * direction.ravel()


def step_of_adamw(w, m, v, k, rate, decay):
    rate *= o["adamw_rate"]
    return w * (1 - rate * decay) - rate * (m / (1 - beta1**k)) / (np.sqrt(v / (1 - beta2**k)) + o["eps"])


turned, worst = 0, 0.0
for name, tensor in tensors.items():
    at, shape = place(tensor.ravel()), tensor.shape
    of_muon = len(shape) == 2 and ".layers." in name
    decay = o["weight_decay"] if len(shape) == 2 else 0
    turned += of_muon
    w, m, v = first[name].ravel().astype(float), 0.0, 0.0
    for k, (state, rate) in enumerate(zip(states, rates), 1):
        new, now, second = (state[part][at].astype(float) for part in "wmv")
        beta = mu if of_muon else beta1
        g = (now - beta * m) / (1 - beta)
        expected = step_of_muon(w, g, now, shape, rate, decay) if of_muon else step_of_adamw(w, now, second, k, rate, decay)
        if not of_muon:
            assert np.allclose(second, beta2 * v + (1 - beta2) * g**2, rtol=1e-3, atol=1e-12), (name, k)
        size = np.sqrt(np.mean((expected - w) ** 2))
        error = np.max(np.abs(new - expected))
        # rounding of the weights, and of the gradient as it follows from the momenta
        if not error <= 5e-4 * size + 1e-7 * np.max(np.abs(w)):
            sys.exit(f"{name}, step {k}: off by {error:.2e}, an update is {size:.2e}")
        worst = max(worst, error / size if size else 0)
        w, m, v = new, now, second
print(f"{turned} matrices and {len(tensors) - turned} other tensors over {last} steps: largest difference {worst:.1e} of an update")
sys.exit(not 0 < turned < len(tensors))
