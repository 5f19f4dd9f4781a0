"""GPTQ and RTN of whole tiny models against the reference implementation (tests/fixtures/gptq/model_*).

The quantized weights of block 0 and of the last block are compared code by code: values closer than a small fraction of a step count
as equal codes. The random models amplify every flipped code, so the last block may differ more: running the reference itself in f64
instead of f32 gives the same codes for 99.4 to 100 % of block 0 and 79 to 100 % of the last block.

usage: gptq_models.py QTRAJ FIXTURES
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from golden import expect, finish, load

QTRAJ, FIXTURES = sys.argv[1:3]


def flags(setting):
    bits, group, grid, *order = setting.split("_")
    out = ["--bits", bits[1:], "--group-size", "-1" if group == "gall" else group[1:]]
    out += ["--asymmetric"] if grid == "asym" else []
    return out + (["--order", "activation"] if "act" in order else [])


def quantize(model, method, setting, ids, out):
    command = [QTRAJ, "quantize", f"{FIXTURES}/models/{model}", "--method", method, *flags(setting), "--weights", out, "--json",
               "--evaluation-ids", f"{ids}:evaluation_ids"]
    if method == "gptq":
        command += ["--calibration-ids", f"{ids}:calibration_ids", "--damping", "0.01"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return result, load(out)


def equal_codes(got, want):
    step = np.abs(want).max(axis=1, keepdims=True) / 1000  # a step is at least 1/16 of the largest value at 4 bits
    return np.mean(np.abs(got - want) <= step)


def block_shares(got, want, prefix, block, names):
    equal = {n: equal_codes(got[f"{prefix}.{block}.{n}.weight"], want[f"block{block}.{n}"]) for n in names}
    sizes = {n: got[f"{prefix}.{block}.{n}.weight"].size for n in names}
    return equal, sum(equal[n] * sizes[n] for n in names) / sum(sizes.values())


def check_gptq(model, prefix, setting, stored, meta, ids, scratch):
    result, got = quantize(model, "gptq", setting, ids, scratch)
    want = {k[len(f"gptq.{setting}."):]: v for k, v in stored.items() if k.startswith(f"gptq.{setting}.")}
    blocks = sorted({int(k.split(".")[0][5:]) for k in want})
    names = sorted({k.split(".", 1)[1] for k in want})
    for block, least in ((blocks[0], 0.99), (blocks[-1], 0.75)):
        equal, share = block_shares(got, want, prefix, block, names)
        expect(share >= least, f"{model} {setting} block {block}: {share:.4%} equal codes")
        if block == 0:
            inputs = [n for n in names if any(q in n for q in ("q_proj", "k_proj", "v_proj", "query_key_value"))]
            worst = min(equal[n] for n in inputs)
            expect(worst >= 0.999, f"{model} {setting} block 0 q, k, v: {worst:.4%} equal codes")
    baseline = meta["loss"]["baseline"]
    expect(abs(result["baseline_loss"] / baseline - 1) <= 1e-6, f"{model} baseline {result['baseline_loss']} ~ {baseline}")


def check_rtn(model, setting, meta, ids, scratch):
    loss = meta["loss"][f"rtn.{setting}"]
    result, _ = quantize(model, "rtn", setting, ids, scratch)
    expect(abs(result["loss"] / loss - 1) <= 1e-5, f"{model} rtn {setting} loss {result['loss']} ~ {loss}")


with tempfile.TemporaryDirectory() as folder:
    found = 0
    for file in sorted(os.listdir(f"{FIXTURES}/gptq")):
        if not (file.startswith("model_") and file.endswith(".json")):
            continue
        found += 1
        model = file[len("model_"):-len(".json")]
        meta = json.load(open(f"{FIXTURES}/gptq/{file}"))
        ids = f"{FIXTURES}/gptq/model_{model}.safetensors"
        stored = load(ids)
        prefix = "gpt_neox.layers" if "neox" in model else "model.layers"
        for setting in sorted(k[len("gptq."):] for k in meta["loss"] if k.startswith("gptq.")):
            check_gptq(model, prefix, setting, stored, meta, ids, f"{folder}/out.safetensors")
            if f"rtn.{setting}" in meta["loss"]:
                check_rtn(model, setting, meta, ids, f"{folder}/out.safetensors")
    expect(found >= 5, f"{found} models")
finish()
