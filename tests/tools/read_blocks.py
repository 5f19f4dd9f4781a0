"""Weights of a folder that `--format qtraj` wrote, as docs/export.md defines them: with numpy alone, and slowly."""
import itertools
import json

import numpy as np

from safetensors_reader import load

NORM_12 = bytes.fromhex("f1f2f4f837576797a7c73b5b6b9babcb3d5d6d9dadce3e5e6e9eaeec73")


def legendre(x, p):
    return 0 if x % p == 0 else 1 if pow(int(x), (p - 1) // 2, p) == 1 else -1


def paley(k):
    p = k - 1
    core = np.array([[legendre(j - i, p) for j in range(p)] for i in range(p)]) + np.eye(p)
    return np.block([[np.ones((1, 1)), np.ones((1, p))], [-np.ones((p, 1)), core]])


def hadamard(n):
    """H_k x S of order n, over the root; k 1 or, where p = k - 1 is a prime that is 3 modulo 4, Paley's first matrix."""
    k = n // (n & -n)
    k = 1 if k == 1 else 4 * k
    h = paley(k) if k > 1 else np.ones((1, 1))
    while len(h) < n:
        h = np.kron(h, [[1, 1], [1, -1]])
    return h / np.sqrt(n)


def values_1mad(state):
    x = (state * 34038481 + 76625530) & 0xFFFFFFFF
    return (sum(x >> s & 255 for s in (0, 8, 16, 24)) - 510) / 147.800537109375


def values_3inst(state):
    x = ((state * 89226354 + 64248484) & 0x8FFF8FFF) ^ 996162400
    halves = [(x >> s & 0xFFFF).astype("<u2").view("<f2").astype("<f4") for s in (16, 0)]
    return (halves[0] + halves[1]).astype("<f2").astype(float)


def values_hyb(state, table):
    x = (state + 1) * state & 0xFFFFFFFF
    pairs = np.array(table).reshape(-1, 2)[x >> 6 & 511]
    pairs[..., 0] *= np.where(x >> 15 & 1, -1, 1)
    return pairs.reshape(*state.shape[:-1], -1)


def trellis(codes, q):
    """(blocks, 256) numbers of (blocks, 32 bits) bytes."""
    window, values = q["window"], 2 if q["code"] == "hyb" else 1
    bits = np.unpackbits(codes, axis=1).astype(np.int64)
    at = (np.arange(0, bits.shape[1], q["bits"] * values)[:, None] + np.arange(window)) % bits.shape[1]
    state = bits[:, at] @ (1 << np.arange(window)[::-1])
    return values_hyb(state, q["table"]) if values == 2 else {"1mad": values_1mad, "3inst": values_3inst}[q["code"]](state)


def lattice(codes, q):
    """(blocks, 128) numbers of (blocks, 16 bits) bytes."""
    codes = codes.reshape(-1, q["bits"]).astype(int)
    sizes = np.array([x[::-1] for x in itertools.product((0.5, 1.5, 2.5), repeat=8) if np.dot(x, x) <= 10] +
                     [[1.5 if m >> i & 1 else 0.5 for i in range(8)] for m in NORM_12])
    small = [np.zeros(8)]
    for i in range(8):
        for j in range(i):
            for s in range(4):
                small.append(np.eye(8)[i] * (-1 if s & 1 else 1) + np.eye(8)[j] * (-1 if s & 2 else 1))
    halves = np.array([[-0.5 if s >> i & 1 else 0.5 for i in range(8)] for s in range(256)])
    small += list(halves[(halves < 0).sum(1) % 2 == 0]) + list(np.vstack([2 * np.eye(8), -2 * np.eye(8)])[:15])

    def e8p(number, signs):
        minus = np.array([signs >> (7 - i) & 1 for i in range(7)]).T
        last = (minus.sum(1) + sizes[number].sum(1)).astype(int) % 2
        return sizes[number] * (1 - 2 * np.column_stack([minus, last])) + np.where(signs & 1, -0.25, 0.25)[:, None]

    x = e8p(codes[:, 0], codes[:, 1])
    if q["bits"] == 3:
        x += np.array(small)[codes[:, 2]] / 2.04
    if q["bits"] == 4:
        x += e8p(codes[:, 2], codes[:, 3]) / 3.45
    return x.reshape(-1, 128)


def weights(folder):
    """{name: (rows, cols)} of the linears, and {name: bytes that they take}."""
    q = json.load(open(f"{folder}/config.json"))["quantization_config"]
    tensors, out, taken = load(f"{folder}/model.safetensors"), {}, {}
    wide, decode = (8, lattice) if q["code"] == "e8p" else (16, trellis)
    for stem in [name[:-len(".codes")] for name in tensors if name.endswith(".codes")]:
        codes, scale = tensors[f"{stem}.codes"], tensors[f"{stem}.scale"]
        rows, size = 16 * len(codes), 2 * wide * q["bits"]
        c = decode(codes.reshape(-1, size), q).reshape(len(codes), -1, 16, wide).transpose(0, 2, 1, 3).reshape(rows, -1)
        cols, signs = c.shape[1], tensors.get(f"{stem}.signs")
        if q["incoherence"]:
            d = 1.0 - 2 * np.unpackbits(signs)[:rows + cols]
            c = (d[cols:, None] * hadamard(rows)) @ c @ (d[:cols, None] * hadamard(cols)).T
        out[f"{stem}.weight"] = c * scale[0, 0]
        taken[f"{stem}.weight"] = codes.nbytes + scale.nbytes + (signs.nbytes if q["incoherence"] else 0)
    return out, taken
