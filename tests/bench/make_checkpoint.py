#!/usr/bin/env python3
"""Writes a random checkpoint of any family and shape in Hugging Face layout, for benches and scale tests.

The tensors' names and shapes come from `qtraj inspect config.json`, so every family that qtraj reads can be made.

usage: make_checkpoint.py QTRAJ OUT_DIR --family llama --hidden 2048 --layers 16 --heads 16 [--kv-heads 16] [--head-dim D]
                          --intermediate 8192 --vocab 8192 [--dtype BF16|F16|F32] [--shard-gb 4] [--seed 0] [--set KEY=JSON ...] [--config-only]
"""
import argparse
import json
import os
import struct
import subprocess

import numpy as np

CLASSES = {"llama": "LlamaForCausalLM", "smollm3": "SmolLM3ForCausalLM", "olmo": "OlmoForCausalLM", "olmo2": "Olmo2ForCausalLM",
           "olmo3": "Olmo3ForCausalLM",
           "apertus": "ApertusForCausalLM", "gpt_neox": "GPTNeoXForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
           "opensci": "OpenSciForCausalLM", "bitnet": "BitNetForCausalLM"}


def config_of(a):
    config = {"architectures": [CLASSES[a.family]], "model_type": a.family, "hidden_size": a.hidden, "num_hidden_layers": a.layers,
              "num_attention_heads": a.heads, "num_key_value_heads": a.kv_heads or a.heads, "intermediate_size": a.intermediate,
              "vocab_size": a.vocab, "max_position_embeddings": 4096, "hidden_act": "silu",
              "torch_dtype": {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[a.dtype]}
    if a.head_dim:
        config["head_dim"] = a.head_dim
    if a.family == "gpt_neox":
        config["hidden_act"] = "gelu"
    if a.family == "apertus":
        config["hidden_act"] = "xielu"
    if a.family == "bitnet":
        config["hidden_act"] = "relu2"
    if a.family == "olmo3":
        config["rope_theta"] = 500000
    for item in a.set:
        key, value = item.split("=", 1)
        config[key] = json.loads(value)
    return config


def tensors_of(qtraj, config_path, layers):
    listing = json.loads(subprocess.run([qtraj, "inspect", config_path, "--json"], check=True, capture_output=True, text=True).stdout)
    out = [(t["name"], t["shape"]) for t in listing["outside"]]
    for layer in range(layers):
        out += [(t["name"].replace(".0.", f".{layer}.", 1), t["shape"]) for t in listing["block"]]
    return out


def values_of(rng, name, shape):
    n = int(np.prod(shape)) if shape else 1
    if len(shape) == 2:
        scale = 0.02 if "embed" in name else 1 / np.sqrt(shape[1])
        return rng.standard_normal(n, dtype=np.float32) * np.float32(scale)
    if name.endswith("bias"):
        return rng.standard_normal(n, dtype=np.float32) * np.float32(0.01)
    return 1 + rng.standard_normal(n, dtype=np.float32) * np.float32(0.02)


def encode(values, dtype):
    if dtype == "F32":
        return values.astype("<f4").tobytes()
    if dtype == "F16":
        return values.astype("<f2").tobytes()
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()  # round to nearest even


def write_shard(path, tensors, rng, dtype):
    size = {"F32": 4, "F16": 2, "BF16": 2}[dtype]
    header, at = {}, 0
    for name, shape in tensors:
        n = int(np.prod(shape)) if shape else 1
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n * size]}
        at += n * size
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors:
            f.write(encode(values_of(rng, name, shape), dtype))


def shards_of(tensors, limit, size):
    shards, filled = [[]], 0
    for t in tensors:
        n = int(np.prod(t[1])) * size if t[1] else size
        if filled and filled + n > limit:
            shards.append([])
            filled = 0
        shards[-1].append(t)
        filled += n
    return shards


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("qtraj")
    p.add_argument("out")
    p.add_argument("--family", choices=sorted(CLASSES), default="llama")
    for name in ("hidden", "layers", "heads", "intermediate", "vocab"):
        p.add_argument(f"--{name}", type=int, required=True)
    p.add_argument("--kv-heads", type=int)
    p.add_argument("--head-dim", type=int)
    p.add_argument("--dtype", choices=("BF16", "F16", "F32"), default="BF16")
    p.add_argument("--shard-gb", type=float, default=4)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="another field of config.json")
    p.add_argument("--config-only", action="store_true", help="config.json without weights, for inspect and plan")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    config_path = os.path.join(a.out, "config.json")
    with open(config_path, "w") as f:
        json.dump(config_of(a), f, indent=1)
    if a.config_only:
        return
    rng = np.random.default_rng(a.seed)
    shards = shards_of(tensors_of(a.qtraj, config_path, a.layers), a.shard_gb * 1e9, 4 if a.dtype == "F32" else 2)
    if len(shards) == 1:
        write_shard(os.path.join(a.out, "model.safetensors"), shards[0], rng, a.dtype)
        return
    weight_map = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        write_shard(os.path.join(a.out, file), shard, rng, a.dtype)
        weight_map.update({name: file for name, _ in shard})
    with open(os.path.join(a.out, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {}, "weight_map": weight_map}, f)


main()
