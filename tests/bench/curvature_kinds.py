"""Curvature in every kind of products beside that in f32, on the small models of the tests.

    curvature_kinds.py QTRAJ FOLDER [FLAGS ...]

FOLDER/NAME has a model and, in derivatives.safetensors or reference.safetensors, input_ids; FLAGS are added to `qtraj curvature`.
Prints, for each kind, the largest difference over the models from f32: of the gradient's norm, of the sharpness (and how many
converged in f32 but not in that kind), and of the trace, each relative; of the trace also in units of its standard error."""
import glob
import json
import os
import subprocess
import sys

qtraj, folder, flags = sys.argv[1], sys.argv[2], sys.argv[3:]
KINDS = ["f32", "bf16x3", "bf16x2", "bf16"]


def measure(path, ids, kind):
    command = [qtraj, "curvature", path, "--ids", f"{ids}:input_ids", "--json", "--sharpness", "lanczos", "--trace", "16",
               "--products", "40", "--products-in", kind, *flags]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


worst = {kind: dict.fromkeys(["gradient_norm", "sharpness", "trace", "trace_stderrs"], 0.0) | {"unconverged": 0} for kind in KINDS[1:]}
for path in sorted(glob.glob(os.path.join(folder, "*", "config.json"))):
    path = os.path.dirname(path)
    ids = [f for f in ("derivatives.safetensors", "reference.safetensors") if os.path.exists(os.path.join(path, f))]
    if not ids:
        continue
    found = {kind: measure(path, os.path.join(path, ids[0]), kind) for kind in KINDS}
    for kind, w in worst.items():
        for what in ("gradient_norm", "sharpness", "trace"):
            w[what] = max(w[what], abs(found[kind][what] / found["f32"][what] - 1))
        w["trace_stderrs"] = max(w["trace_stderrs"], abs(found[kind]["trace"] - found["f32"]["trace"]) / found["f32"]["trace_stderr"])
        w["unconverged"] += found["f32"]["sharpness_converged"] and not found[kind]["sharpness_converged"]
for kind, w in worst.items():
    print(json.dumps({"products": kind} | {k: float(f"{v:.2g}") for k, v in w.items()}))
