"""The presets gptqmodel-4 and gptqmodel-5 against GPTQModel 4.2.5 and 5.8.0 (tests/fixtures/presets): documents of unequal length,
one per sample, short ones dropped, batches of three; padding counted, or masked, sorted and cut at the model's maximum position.

The package calibrates later layers on weights with f32 scales and rounds the scales when it packs; the presets do the same
(scale_dtype: f16-packed). Codes (except ties), stored weights, losses of layers and the loss of the stored weights must agree for every
block. scale_dtype f16, which calibrates on the stored weights, gives other codes: weights differ by up to 2^-11, and this tiny random
model amplifies every code that flips (gptq_models.py).

usage: presets.py QTRAJ FIXTURES
"""
import json
import subprocess
import sys
import tempfile

import numpy as np

from golden import expect, finish, load

QTRAJ, FIXTURES = sys.argv[1:3]


def quantize(preset, meta, file, out, *more):
    command = [QTRAJ, "quantize", f"{FIXTURES}/models/llama", "--method", "gptq", "--preset", preset, "--bits", str(meta["bits"]),
               "--group-size", str(meta["group_size"]), "--calibration-ids", f"{file}:calibration_ids",
               "--evaluation-ids", f"{file}:evaluation_ids", "--weights", out, "--json", *more]
    if more[-1:] != ("none",):  # without padding nothing is padded
        command += ["--calibration-batch", str(meta["batch"]), "--calibration-pad-id", str(meta["pad_id"])]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return result, load(out)


def stored(tensors, key, half):
    """Scale * (code - zero), the scale as the package packs it or as it found it."""
    group, scale = tensors[f"{key}.g_idx"], tensors[f"{key}.scale"]
    scale = scale.astype(np.float16).astype(np.float32) if half else scale
    return scale[:, group] * (tensors[f"{key}.codes"].astype(np.float32) - 8)


def share_of(got, tensors, block, linears, half=True):
    equal = total = 0
    for linear in linears:
        want = stored(tensors, f"block{block}.{linear}", half)
        have = got[f"model.layers.{block}.{linear}.weight"]
        equal += np.sum(np.abs(have - want) <= np.abs(want) * (2e-3 if half else 1e-5) + 1e-7)  # a scale may round the other way
        total += want.size
    return equal / total


QKV = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
REST = ["self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]


def check(preset, name, other):
    file = f"{FIXTURES}/presets/{name}.safetensors"
    tensors, meta = load(file), json.load(open(f"{FIXTURES}/presets/{name}.json"))
    with tempfile.TemporaryDirectory() as folder:
        exact, wide = quantize(preset, meta, file, f"{folder}/w.safetensors", "--scale-dtype", "f32")
        early, stored_first = quantize(preset, meta, file, f"{folder}/w.safetensors", "--scale-dtype", "f16")
        result, got = quantize(preset, meta, file, f"{folder}/w.safetensors")
        wrong, off = quantize(preset, meta, file, f"{folder}/w.safetensors", *other)
    baseline, want = meta["loss"]["baseline"], meta["loss"]["quantized"]
    expect(abs(exact["baseline_loss"] / baseline - 1) < 1e-6, f"{preset}: baseline {exact['baseline_loss']}")
    bounds = (0.999, 0.999, 0.99)
    for half, weights in ((False, wide), (True, got)):
        label = f"{preset}, scales {'f16' if half else 'f32'}"
        for block, linears, least in ((0, QKV, bounds[0]), (0, QKV + REST, bounds[1]), (2, QKV + REST, bounds[2])):
            share = share_of(weights, tensors, block, linears, half)
            expect(share >= least, f"{label}: block {block}, {len(linears)} linears: {share:.4%} equal codes (least {least:.1%})")
    expect(abs(result["loss"] / want - 1) < 1e-4, f"{preset}: loss {result['loss']:.6f}, package {want:.6f}, with f32 scales {exact['loss']:.6f}")
    for name in wide:
        expect(np.max(np.abs(got[name] - wide[name]) / np.maximum(np.abs(wide[name]), 1e-30)) <= 2**-11, f"{preset}: {name}: the codes are those of f32 scales")
    share, kept = (share_of(x, tensors, 2, QKV + REST) for x in (stored_first, got))
    expect(share < kept - 0.01, f"{preset}: calibrated on stored weights {share:.4%} equal codes in block 2, loss {early['loss']:.6f}")
    for layer in result["layers"]:
        theirs = meta["layer_loss"][layer["name"].removesuffix(".weight")] * meta["nsamples"]
        near = abs(layer["error"] / theirs - 1) < (1e-4 if ".0.self_attn" in layer["name"] else 1e-2) and abs(layer["damping"] - 0.05) < 1e-12
        if not near or "q_proj" in layer["name"]:
            expect(near, f"{preset}: {layer['name']} error {layer['error']:.6g}, package {theirs:.6g}, damping {layer['damping']}")
    share = share_of(off, tensors, 0, QKV)
    expect(share < 0.99, f"{preset} with {' '.join(other)}: {share:.4%} equal codes, loss {wrong['loss']:.6f}: the preset makes a difference")


check("gptqmodel-4", "gptqmodel_4", ["--calibration-padding", "none"])
check("gptqmodel-5", "gptqmodel_5", ["--calibration-padding", "counted"])
finish()
