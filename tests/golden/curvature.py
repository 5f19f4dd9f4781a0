"""qtraj curvature on the parity fixtures, against gradients, products, eigenvalues and whole Hessians in float64
(tests/fixtures/models/*/derivatives.safetensors; computed by torch and trimmed by tests/fixtures/models/trim.py).

usage: curvature.py QTRAJ MODELS
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

from golden import expect, finish, load

QTRAJ, MODELS = sys.argv[1:3]


def close(what, found, expected, relative):
    error = abs(found - expected) / abs(expected)
    expect(error <= relative, f"{what}: {found:.9g}, expected {expected:.9g}: relative error {error:.1e}")


def curvature(name, *flags):
    folder = f"{MODELS}/{name}"
    command = [QTRAJ, "curvature", folder, "--ids", f"{folder}/reference.safetensors:input_ids", "--json", *map(str, flags)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def answers(name):
    return load(f"{MODELS}/{name}/derivatives.safetensors")


def probes(name):
    """Loss, gradient norms and v'Hv for random signs; it may cancel, so errors are relative to |v||Hv|."""
    want = answers(name)
    size = None
    for salt in range(4):
        got = curvature(name, "--probe", salt)
        if salt == 0:
            close(f"{name}: loss", got["loss"], want["f64.loss"][0], 1e-5)
            norms = np.array(list(got["gradient_norms"].values()))
            worst = np.max(np.abs(norms / want["grad_norms"] - 1))
            expect(worst <= 1e-4, f"{name}: gradient norms: relative error {worst:.1e}")
            close(f"{name}: gradient norm", got["gradient_norm"], np.linalg.norm(want["grad_norms"]), 1e-4)
            size = math.sqrt(got["parameters"]) * np.linalg.norm(want["hv_norms"])
            parts = np.array(list(got["vhv_per_tensor"].values()))
            worst = np.max(np.abs(parts - want["vhv_per_tensor"])) / size
            expect(worst <= 1e-4, f"{name}: v'Hv by tensor: {worst:.1e} of |v||Hv|")
        error = abs(got["vhv"] - want["vhv"][salt]) / size
        expect(error <= 1e-4, f"{name}: v'Hv of stream {salt}: {error:.1e} of |v||Hv|")
        expect(got["products"] == 1, f"{name}: one product")


def eigenvalues(name):
    want = answers(name)
    for subset in ("all", "mat2d", "blocks2d"):
        got = curvature(name, "--subset", subset, "--sharpness", "lanczos", "--smallest", "--tolerance", "1e-3")
        for end, key in (("largest", "sharpness"), ("smallest", "smallest_eigenvalue"), ("dominant", "dominant")):
            close(f"{name}: {subset}: {end} eigenvalue", got[key], want[f"eig.{subset}.{end}"][0], 1e-4)
        expect(got["sharpness_converged"], f"{name}: {subset}: converged after {got['sharpness_iterations']} iterations")
        error = abs(got["sharpness"] - want[f"eig.{subset}.largest"][0])
        expect(error <= got["sharpness_residual"], f"{name}: {subset}: an eigenvalue lies within the residual {got['sharpness_residual']:.1e}")


def whole_hessian(name):
    want = answers(name)
    spectrum = want["hessian.eigenvalues"]
    n, dominant = len(spectrum), max(spectrum, key=abs)
    got = curvature(name, "--sharpness", "lanczos", "--smallest", "--tolerance", "1e-4", "--trace", 64, "--density", 16,
                    "--density-runs", 16)
    expect(got["parameters"] == n, f"{name}: {n} parameters")
    close(f"{name}: largest eigenvalue", got["sharpness"], spectrum[-1], 1e-5)
    close(f"{name}: smallest eigenvalue", got["smallest_eigenvalue"], spectrum[0], 1e-5)
    power = curvature(name, "--sharpness", "power", "--stop", "residual", "--tolerance", "1e-3", "--products", "2000")
    close(f"{name}: eigenvalue of power iteration", power["sharpness"], dominant, 1e-5)
    trace(name, got, want["hessian.trace"][0])
    restarted = curvature(name, "--sharpness", "lanczos", "--smallest", "--tolerance", "1e-4", "--memory", str(6 * 4 * n / 2**30),
                          "--products", "1000")
    expect(restarted["vectors"] == 6 and restarted["restarts"] > 0, f"{name}: {restarted['restarts']} restarts with 6 vectors")
    close(f"{name}: largest eigenvalue, restarted", restarted["sharpness"], spectrum[-1], 1e-5)
    close(f"{name}: smallest eigenvalue, restarted", restarted["smallest_eigenvalue"], spectrum[0], 1e-5)
    sketched = curvature(name, "--trace", 150, "--hutchpp")
    trace(f"{name}: Hutch++", sketched, want["hessian.trace"][0])
    expect(sketched["products"] == 150, f"{name}: Hutch++ takes its 150 products")
    moments(name, got["density"], spectrum)


def trace(name, got, expected):
    error, allowed = abs(got["trace"] - expected), 3 * got["trace_stderr"]
    expect(error <= allowed, f"{name}: trace {got['trace']:.5g}, expected {expected:.5g}: off by {error:.2g} of {allowed:.2g}")
    expect(got["trace_stderr"] < abs(expected), f"{name}: the trace's standard error {got['trace_stderr']:.2g} says something")
    for key in ("trace_by_layer", "trace_by_kind"):
        total = sum(part["trace"] for part in got[key])
        close(f"{name}: sum of {key}", total, got["trace"], 1e-9)


def moments(name, runs, spectrum):
    """The mean over runs of the sum of w x^k is that of all eigenvalues, within its standard error."""
    for k in range(1, 7):
        each = [np.dot(run["weights"], np.array(run["nodes"]) ** k) for run in runs]
        error, spread = abs(np.mean(each) - np.mean(spectrum**k)), np.std(each, ddof=1) / math.sqrt(len(each))
        expect(error <= 3 * spread, f"{name}: moment {k} of the density: off by {error / spread:.2f} standard errors")
    weights = [abs(sum(run["weights"]) - 1) for run in runs]
    expect(max(weights) < 1e-12, f"{name}: weights sum to 1")


def for_people():
    """The verdict in words, numbers no further than their errors allow, and four sequences unless more are asked for."""
    folder = f"{MODELS}/tiny_llama"
    ids = ["--ids", f"{folder}/reference.safetensors:input_ids"]

    def text(*flags):
        command = [QTRAJ, "curvature", folder, *flags]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    short = text(*ids, "--sharpness", "lanczos", "--products", "4", "--trace", "8")
    expect(re.search(r"^sharpness [\d.]+, residual [\d.]+ \([\d.]+ %\): not converged, after 4 products$", short, re.M),
           f"four products do not converge, and that is said: {short.splitlines()[2]}")
    expect(re.search(r"^  for a residual of at most 0.1 % of it: more --products, or a looser --tolerance$", short, re.M), "what helps is said")
    expect(re.search(r"^trace -?[\d.]+ ± [\d.]+, 8 probes$", short, re.M) and "+-" not in short, "trace with its error as people write it")
    long = text(*ids, "--sharpness", "lanczos", "--products", "200")
    expect(": converged, after " in long, "with more products it converges")
    stopped = text(*ids, "--sharpness", "power")
    expect("not converged" in stopped and "--stop residual" in stopped, "PyHessian's rule stops it, but that is not convergence")
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/ids.safetensors"
        data = np.arange(7 * 10, dtype="<i8").reshape(7, 10) % 32
        header = json.dumps({"ids": {"dtype": "I64", "shape": [7, 10], "data_offsets": [0, data.nbytes]}}).encode()
        with open(path, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + data.tobytes())
        for flags, tokens in ([], 4 * 9), (["--samples", "6"], 6 * 9), (["--samples", "0"], 7 * 9):
            got = json.loads(text("--ids", f"{path}:ids", "--json", *flags))["tokens"]
            expect(got == tokens, f"{got} tokens of seven sequences with {' '.join(flags) or 'no flag'}, expected {tokens}")


def refusals():
    def refused(text, *flags):
        folder = f"{MODELS}/tiny_llama"
        done = subprocess.run([QTRAJ, "curvature", folder, "--ids", f"{folder}/reference.safetensors:input_ids", *flags],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        expect(done.returncode == 2 and text in done.stderr, f"refused: {' '.join(flags)}: {done.stderr.strip()}")

    refused("0.0005 GiB may be used: take at most", "--trace", "300", "--hutchpp", "--memory", "0.0005")
    refused("expected a number from 0 on, found -1", "--probe", "-1")
    refused("Lanczos needs 4 vectors", "--sharpness", "lanczos", "--memory", "1e-5")
    refused("one of all, mat2d", "--subset", "most")
    refused("--padding: unknown flag", "--padding", "counted")


for model in sorted(os.listdir(MODELS)):
    if os.path.exists(f"{MODELS}/{model}/derivatives.safetensors"):
        probes(model)
for model in ("llama", "olmo2", "olmo3", "gpt_neox_parallel"):
    eigenvalues(model)
for model in ("tiny_llama", "tiny_gpt_neox"):
    whole_hessian(model)
for_people()
refusals()
finish()
