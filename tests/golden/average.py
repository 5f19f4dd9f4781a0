"""Checkpoints for tests of averages, and their means by numpy alone.

average.py store DIR OUT DTYPE FILES           a copy of a checkpoint in another type, its tensors in so many files
average.py mean OUT DIR... [--weights 1,2,3]   whether OUT is the mean of the checkpoints, rounded once to OUT's types
average.py same A B                            whether two checkpoints hold the same bits, whatever files they are in
average.py greedy OUT TABLE DIR... -- COMMAND...
                                               whether OUT is the greedy soup of the checkpoints, and TABLE what qtraj printed
                                               of it; the loss of a folder is what COMMAND FOLDER prints as JSON
average.py large OUT BYTES SEED                one tensor of bf16 noise and a config.json
"""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from fractions import Fraction

import numpy as np

SIZE = {"F32": 4, "F16": 2, "BF16": 2}


def read(folder):
    """{tensor: (type, shape, bytes)} of all weight files of a folder."""
    out = {}
    for path in glob.glob(folder + "/model*.safetensors"):
        data = open(path, "rb").read()
        n = struct.unpack("<Q", data[:8])[0]
        for name, t in json.loads(data[8:8 + n]).items():
            begin, end = t.get("data_offsets", (0, 0))
            if name != "__metadata__":
                out[name] = t["dtype"], t["shape"], data[8 + n + begin:8 + n + end]
    assert out, folder
    return out


def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def widen(dtype, data):
    """Stored numbers as f64."""
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.frombuffer(data, "<f4" if dtype == "F32" else "<f2").astype(np.float64)


def narrow(dtype, x):
    """f64 rounded once, ties to even; bf16 by searching its neighbours, not by bit tricks."""
    if dtype != "BF16":
        return x.astype("<f4" if dtype == "F32" else "<f2").tobytes()
    below = (np.abs(x).astype(np.float32).view(np.uint32) >> 16).astype(np.uint32)
    below -= (below << 16).view(np.float32).astype(np.float64) > np.abs(x)  # f32 may have rounded up to it
    low, high = ((below + i << 16).astype(np.uint32).view(np.float32).astype(np.float64) for i in (0, 1))
    up = np.abs(x) - low > high - np.abs(x)
    up |= (np.abs(x) - low == high - np.abs(x)) & (below % 2 == 1)
    return ((below + up).astype(np.uint16) | (np.signbit(x).astype(np.uint16) << 15)).tobytes()


def store(source, out, dtype, files):
    tensors = read(source)
    os.makedirs(out)
    for name in os.listdir(source):
        if name.endswith(".json") and "index" not in name:
            shutil.copy(os.path.join(source, name), out)
    names, files = sorted(tensors), int(files)
    weight_map = {}
    for i in range(files):
        file = f"model-{i + 1:05}-of-{files:05}.safetensors" if files > 1 else "model.safetensors"
        mine = {n: (dtype, tensors[n][1], narrow(dtype, widen(tensors[n][0], tensors[n][2]))) for n in names[i::files]}
        write(os.path.join(out, file), mine)
        weight_map.update(dict.fromkeys(mine, file))
    if files > 1:
        json.dump({"metadata": {}, "weight_map": weight_map}, open(out + "/model.safetensors.index.json", "w"))


def mean(out, *rest):
    weights = [1.0] * len(rest)
    if "--weights" in rest:
        weights = [float(w) for w in rest[-1].split(",")]
        rest = rest[:-2]
    parts, got, worst = [read(folder) for folder in rest], read(out), 0.0
    assert got.keys() == parts[0].keys(), got.keys() ^ parts[0].keys()
    for name, (dtype, shape, data) in got.items():
        assert all(p[name][1] == shape for p in parts)
        exact = sum(w * widen(p[name][0], p[name][2]) for w, p in zip(weights, parts)) / sum(weights)
        assert data == narrow(dtype, exact), f"{name}: not the mean rounded once"
        # A few numbers in exact arithmetic: f64 sums lose nothing that shows.
        for i in range(0, len(exact), max(1, len(exact) // 7)):
            terms = [Fraction(w) * Fraction(float(widen(p[name][0], p[name][2])[i])) for w, p in zip(weights, parts)]
            truth = float(sum(terms) / sum(Fraction(w) for w in weights))
            worst = max(worst, abs(exact[i] - truth) / max(abs(truth), 1e-30))
    assert worst < 1e-12, worst
    print("types", *sorted({t[0] for t in got.values()}))


def same(a, b):
    a, b = read(a), read(b)
    assert a.keys() == b.keys(), a.keys() ^ b.keys()
    for name in a:
        assert a[name] == b[name], f"{name} differs"


def greedy(out, table, *rest):
    """Recipe 1 of arXiv 2203.05482 with the loss for the accuracy, on folders that numpy writes."""
    cut = rest.index("--")
    folders, command = list(rest[:cut]), rest[cut + 1:]

    def loss(members):
        if len(members) == 1:
            return loss_of(members[0])
        parts = [read(folder) for folder in members]
        soup = {name: (dtype, shape, narrow(dtype, sum(widen(p[name][0], p[name][2]) for p in parts) / len(parts)))
                for name, (dtype, shape, _) in parts[0].items()}
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(members[0] + "/config.json", folder)
            write(folder + "/model.safetensors", soup)
            return loss_of(folder)

    def loss_of(folder):
        return json.loads(subprocess.run([*command, folder], check=True, stdout=subprocess.PIPE).stdout)["loss"]

    alone = {folder: loss([folder]) for folder in folders}
    order = sorted(folders, key=alone.get)
    kept, best, want = order[:1], alone[order[0]], [f"{alone[order[0]]:.6f} {alone[order[0]]:.6f} kept {order[0]}"]
    for folder in order[1:]:
        trial = loss([f for f in folders if f in kept or f == folder])
        want.append(f"{alone[folder]:.6f} {trial:.6f} {'kept' if trial <= best else 'left out'} {folder}")
        if trial <= best:
            kept, best = kept + [folder], trial
    got = [" ".join(line.split()) for line in open(table).read().splitlines()[1:]]
    assert got == want, f"{got}, expected {want}"
    assert 1 < len(kept) < len(folders), kept
    mean(out, *[f for f in folders if f in kept])


def large(out, size, seed):
    os.makedirs(out)
    noise = np.random.default_rng(int(seed)).normal(size=int(size) // 2).astype(np.float32)
    data = (noise.view(np.uint32) >> 16).astype("<u2").tobytes()
    write(out + "/model.safetensors", {"x": ("BF16", [int(size) // 2], data)})
    json.dump({"model_type": "llama"}, open(out + "/config.json", "w"))


if __name__ == "__main__":
    {"store": store, "mean": mean, "same": same, "greedy": greedy, "large": large}[sys.argv[1]](*sys.argv[2:])
