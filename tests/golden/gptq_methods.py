"""Losses of a whole tiny model quantized by GPTQModel 7.7.0's orders and search, by IST-DASLab/gptq and RTN (also with mixed weights),
GPTAQ, AWQ's packages, bitsandbytes, hqq and SmoothQuant, and weights of the last block (tests/fixtures/gptq/methods_llama). Tolerances:
1e-5 for losses without calibration, 1e-3 for those with it, because the random model amplifies every code that flips at a tie.

usage: gptq_methods.py QTRAJ FIXTURES
"""
import json
import subprocess
import sys
import tempfile

import numpy as np

import mixed_awq
from golden import expect, finish, load

QTRAJ, FIXTURES = sys.argv[1:3]
FILE = f"{FIXTURES}/gptq/methods_llama.safetensors"
MODEL = ["--damping", "0.05", "--damping-increment", "0.01", "--hessian-per-token"]
DATA_FREE = {
    "nf4": ["nf4"],
    "nf4_dq": ["nf4", "--double-quant"],
    "fp4": ["fp4"],
    "fp4_dq": ["fp4", "--double-quant"],
    "int8_weight_only": ["int8_weight"],
    "int8_threshold6": ["int8"],
    "int8_threshold2": ["int8", "--outlier-threshold", "2"],
    "hqq_b4_g64_rz": ["hqq", "--bits", "4", "--group-size", "64"],
    "hqq_b3_g64": ["hqq", "--bits", "3", "--group-size", "64"],
}
FLAGS = {
    "rtn": [],
    "gptq_ist": ["--damping", "0.01"],
    "hadamard_rtn": ["--mixing", "hadamard"],
    "hadamard_gptq": ["--mixing", "hadamard"],
    "gptaq_gptq": [],
    "gptaq_own": ["--symmetric-grid", "gptaq"],
    "awq_fold_x": [],
    "awq_fold_duo": ["--duo-scaling"],
    "awq_free_x": ["--scaled", "free"],
    "gptqmodel_gar": [*MODEL, "--order", "group"],
    "gptqmodel_act": [*MODEL, "--order", "activation"],
    "gptqmodel_gar_mse2.4": [*MODEL, "--order", "group", "--range-search", "2.4"],
}


def run(*flags):
    command = [QTRAJ, "quantize", f"{FIXTURES}/models/llama", "--evaluation-ids", f"{FILE}:evaluation_ids", "--json", "--method", *flags]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def quantize(kind, setting, out):
    bits, group, grid = (setting + "_").split("_")[:3]
    flags = ["--bits", bits[1:], "--group-size", group[1:], *(["--asymmetric"] if grid == "asym" else []), *FLAGS[kind], "--weights", out]
    if kind.endswith("rtn"):
        return run("rtn", *flags)
    if kind.startswith("awq"):
        return run("awq", *flags, "--calibration-ids", f"{FILE}:awq_calibration_ids")
    return run("gptaq" if kind.startswith("gptaq") else "gptq", *flags, "--calibration-ids", f"{FILE}:calibration_ids")


losses = json.load(open(FILE.replace(".safetensors", ".json")))["loss"]
stored, checked = load(FILE), 0
with tempfile.TemporaryDirectory() as folder:
    for name, want in losses.items():
        if name == "baseline":
            continue
        if name in DATA_FREE:
            loss = run(*DATA_FREE[name])["loss"]
            expect(abs(loss / want - 1) <= 1e-5, f"{name}: loss {loss:.6f}, reference {want:.6f}")
            continue
        kind, setting = name.rsplit(".", 1)
        result = quantize(kind, setting, f"{folder}/w.safetensors")
        loss = result["loss"]
        expect(abs(loss / want - 1) <= (1e-5 if kind.endswith("rtn") else 1e-3), f"{name}: loss {loss:.6f}, reference {want:.6f}")
        expect(abs(result["baseline_loss"] / losses["baseline"] - 1) <= 1e-6, f"{name}: baseline {result['baseline_loss']:.6f}")
        got = load(f"{folder}/w.safetensors")
        for key in [k for k in stored if k.startswith(f"{name}.block2.")]:
            have, ref = got[f"model.layers.2.{key.split('.block2.')[1]}.weight"], stored[key].astype(np.float32)
            share = np.mean(np.abs(have - ref) <= 1e-3 * np.abs(ref) + 1e-6)
            expect(share >= 0.95, f"{key}: {share:.4%} equal")
            checked += 1
    # Mixed awq, which no package has: the first block's queries (not clipped) and values, codes but for ties.
    run("awq", "--bits", "4", "--group-size", "32", "--scaled", "free", "--mixing", "hadamard", "--calibration-ids",
        f"{FILE}:awq_calibration_ids", "--weights", f"{folder}/w.safetensors")
    model, got = load(f"{FIXTURES}/models/llama/model.safetensors"), load(f"{folder}/w.safetensors")
    eps = json.load(open(f"{FIXTURES}/models/llama/config.json"))["rms_norm_eps"]
    for linear, clip in (("q_proj", False), ("v_proj", True)):
        name = f"model.layers.0.self_attn.{linear}.weight"
        own = mixed_awq.quantize(model[name], mixed_awq.inputs(model, stored["awq_calibration_ids"], eps), 4, 32, clip)
        share = np.mean(np.abs(got[name] - own).max(1) <= 1e-5 * np.abs(own).max(1))
        expect(share >= 0.95, f"mixed awq, {linear}: {share:.4%} of the rows equal")
# A code of an activation that flips at a tie moves the rest: a change of the embedding by 1e-7 of itself moves the authors' losses by up to
# 1.5e-4 (tests/fixtures/smoothquant/make.py); weights do not depend on activations but for their largest.
reference = json.load(open(f"{FIXTURES}/smoothquant/smoothquant.json"))
for name in [n for n in reference if n != "baseline"]:
    result = run("smoothquant", "--migration", name.removeprefix("alpha"), "--calibration-ids", f"{FILE}:calibration_ids")
    for key, tolerance in (("loss", 2e-4), ("weight_distance", 1e-6)):
        got, want = result[key], reference[name][key]
        expect(abs(got / want - 1) <= tolerance, f"smoothquant {name}: {key} {got:.6f}, reference {want:.6f}")
expect(checked == 6 and len(losses) == 36, f"{len(losses)} losses, {checked} matrices")
finish()
