"""The gradient's mean and variance over batches, by central differences of a Llama of one block in float64 that numpy computes.

gradient.py ids FILE SEQUENCES LENGTH                random token ids of the fixture's vocabulary, under the name ids
gradient.py compare FOLDER IDS SEQUENCES CUBE...     whether all cubes have the numbers of batches of so many sequences
"""
import json
import pathlib
import sys

import h5py
import numpy as np

from safetensors_reader import load
from safetensors_writer import save


def normed(x, weight, eps):
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def turned(x, theta):
    """Rotary embedding of (sequence, head, position, channel)."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[2])[:, None] * theta ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def losses(w, c, ids):
    """Mean cross-entropy of each sequence."""
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    d, eps, block = c["hidden_size"] // heads, c["rms_norm_eps"], "model.layers.0."
    split = lambda x, n: x.reshape(*x.shape[:2], n, d).swapaxes(1, 2)
    x = w["model.embed_tokens.weight"][ids]
    h = normed(x, w[block + "input_layernorm.weight"], eps)
    q, k, v = (split(h @ w[f"{block}self_attn.{name}_proj.weight"].T, n) for name, n in (("q", heads), ("k", kv), ("v", kv)))
    q, k = turned(q, c["rope_theta"]), turned(k, c["rope_theta"]).repeat(heads // kv, 1)
    a = q @ k.swapaxes(2, 3) / np.sqrt(d) + np.triu(np.full((ids.shape[1],) * 2, -np.inf), 1)
    a = np.exp(a - a.max(-1, keepdims=True))
    o = (a / a.sum(-1, keepdims=True)) @ v.repeat(heads // kv, 1)
    x = x + o.swapaxes(1, 2).reshape(x.shape) @ w[block + "self_attn.o_proj.weight"].T
    h = normed(x, w[block + "post_attention_layernorm.weight"], eps)
    gate, up = h @ w[block + "mlp.gate_proj.weight"].T, h @ w[block + "mlp.up_proj.weight"].T
    x = x + (gate / (1 + np.exp(-gate)) * up) @ w[block + "mlp.down_proj.weight"].T
    z = normed(x, w["model.norm.weight"], eps)[:, :-1] @ w["lm_head.weight"].T
    top = z.max(-1)
    z = np.log(np.exp(z - top[..., None]).sum(-1)) + top - np.take_along_axis(z, ids[:, 1:, None], -1)[..., 0]
    return z.mean(-1)


def compare(folder, ids, sequences, *cubes):
    with open(folder + "/config.json", encoding="utf-8") as file:
        config = json.load(file)
    w = {name: x.astype(np.float64) for name, x in load(folder + "/model.safetensors").items()}
    reference = load(folder + "/reference.safetensors")
    assert abs(losses(w, config, reference["input_ids"]).mean() - reference["f64.loss"][0]) < 1e-9  # of transformers
    ids, size = load(ids)["ids"], int(sequences)
    batch = lambda: losses(w, config, ids).reshape(-1, size).mean(1)
    step, want = 1e-5, {}
    for name, x in w.items():
        flat = x.reshape(-1)
        g = np.empty((len(ids) // size, len(flat)))
        for i, was in enumerate(flat.copy()):
            flat[i] = was + step
            up = batch()
            flat[i] = was - step
            g[:, i] = (up - batch()) / (2 * step)
            flat[i] = was
        mean, variance = g.mean(0), g.var(0, ddof=1).sum()
        want[name] = variance, (mean**2).sum() - variance / len(g), (mean**2).sum()
    variance, signal, squared = np.sum(list(want.values()), axis=0)
    near = lambda a, b, scale: abs(a - b) <= 2e-5 * scale
    for path in cubes:
        with h5py.File(path) as cube:
            got = {name: float(cube["gradient_" + name][0, 0]) for name in ("mean_norm", "variance", "signal", "signal_to_noise", "loss", "batches", "tokens")}
            assert got["batches"] == len(ids) // size and got["tokens"] == len(ids) * (ids.shape[1] - 1), got
            assert near(got["loss"], batch().mean(), 1) and near(got["mean_norm"], squared**0.5, squared**0.5), (got, squared)
            assert near(got["variance"], variance, variance) and near(got["signal"], signal, squared), (got, variance, signal)
            assert near(got["signal_to_noise"], signal / variance, squared / variance), got
            table = cube["gradient_tensors"]
            assert sorted(want) == [n.decode() for n in table["tensor"][:]], table["tensor"][:]
            for i, name in enumerate(sorted(want)):
                v, s, m = want[name]
                assert near(table["variance"][i], v, v) and near(table["signal"][i], s, m), (name, want[name], table["variance"][i], table["signal"][i])
                assert table["elements"][i] == w[name].size and table["layer"][i] == (0 if "layers.0" in name else -1), name
    print(f"mean {squared**0.5:.6g}, variance {variance:.6g}, signal to noise {signal / variance:.4g}")


def make_ids(path, sequences, length):
    ids = np.random.default_rng(5).integers(0, 32, (int(sequences), int(length)))
    save(pathlib.Path(path), {"ids": ids.astype(np.int32)})


if __name__ == "__main__":
    {"ids": make_ids, "compare": compare}[sys.argv[1]](*sys.argv[2:])
