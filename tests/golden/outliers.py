"""Outliers of what a model computes, of a Llama and a GPT-NeoX that numpy runs in float64.

outliers.py compare FAMILY FOLDER CUBE     whether the cube has the numbers of the fixture's input_ids
outliers.py same CUBE CUBE ...             whether all have the same numbers, bit for bit, of outliers and of losses
outliers.py forms CUBE LAYERS              what holds of any model
outliers.py ids FILE                       writes token ids from standard input: calibration, 8 sequences of 64, and e0 to e7, one each
outliers.py quik FOLDER FILE CUBE          whether the cube has the losses of QUIK's outlier channels by threshold and by relative count
outliers.py lqer FOLDER FILE CUBE          whether it has those of LQER's corrections
outliers.py codebook FOLDER FILE CUBE      whether it has those of SqueezeLLM's tables with weights that are kept
outliers.py billm FOLDER FILE CUBE         whether it has those of BiLLM's binary terms
"""
import json
import pathlib
import sys

import h5py
import numpy as np

from safetensors_reader import load
from safetensors_writer import save

SITES = ["qkv", "o", "up", "down", "keys", "values", "residual"]
FIELDS = ["kurtosis", "largest", "over_median", "channel", "position", "channels", "error_4", "error_8"]


def rms(x, w, eps):
    return w * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def layer_norm(x, w, b, eps):
    x = x - x.mean(-1, keepdims=True)
    return w * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) + b


def turned(x, theta, n):
    """Rotary embedding of the first n channels of (sequence, token, head, channel)."""
    angle = np.arange(x.shape[1])[:, None, None] * theta ** (-np.arange(n // 2) * 2 / n)
    a, b = x[..., : n // 2], x[..., n // 2 : n]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle), x[..., n:]], -1)


def attend(q, k, v):
    k, v = (x.repeat(q.shape[2] // x.shape[2], 2) for x in (k, v))
    a = np.einsum("sihd,sjhd->shij", q, k) / np.sqrt(q.shape[-1]) + np.triu(np.full((q.shape[1],) * 2, -np.inf), 1)
    a = np.exp(a - a.max(-1, keepdims=True))
    return np.einsum("shij,sjhd->sihd", a / a.sum(-1, keepdims=True), v).reshape(*q.shape[:2], -1)


def llama(w, c, ids):
    """Yields what every block computes, by site."""
    x, eps, d = w["model.embed_tokens.weight"][ids], c["rms_norm_eps"], c["head_dim"]
    split = lambda y: y.reshape(*y.shape[:2], -1, d)
    for i in range(c["num_hidden_layers"]):
        at = lambda name: w[f"model.layers.{i}.{name}.weight"]
        s = {"qkv": rms(x, at("input_layernorm"), eps)}
        q, k, v = (split(s["qkv"] @ at(f"self_attn.{n}_proj").T) for n in "qkv")
        q, s["keys"], s["values"] = turned(q, c["rope_theta"], d), turned(k, c["rope_theta"], d), v
        s["o"] = attend(q, s["keys"], v)
        x = x + s["o"] @ at("self_attn.o_proj").T
        s["up"] = rms(x, at("post_attention_layernorm"), eps)
        gate = s["up"] @ at("mlp.gate_proj").T
        s["down"] = gate / (1 + np.exp(-gate)) * (s["up"] @ at("mlp.up_proj").T)
        x = x + s["down"] @ at("mlp.down_proj").T
        yield {**s, "residual": x}


def gpt_neox(w, c, ids):
    x, eps, heads = w["gpt_neox.embed_in.weight"][ids], c["layer_norm_eps"], c["num_attention_heads"]
    d = c["hidden_size"] // heads
    erf = np.vectorize(__import__("math").erf)
    for i in range(c["num_hidden_layers"]):
        at = lambda name: [w[f"gpt_neox.layers.{i}.{name}.{part}"] for part in ("weight", "bias")]
        linear = lambda y, name: y @ at(name)[0].T + at(name)[1]
        s = {"qkv": layer_norm(x, *at("input_layernorm"), eps), "up": layer_norm(x, *at("post_attention_layernorm"), eps)}
        q, k, v = np.split(linear(s["qkv"], "attention.query_key_value").reshape(*x.shape[:2], heads, 3 * d), 3, -1)
        n = int(d * c["rotary_pct"])
        q, s["keys"], s["values"] = turned(q, c["rotary_emb_base"], n), turned(k, c["rotary_emb_base"], n), v
        s["o"] = attend(q, s["keys"], v)
        up = linear(s["up"], "mlp.dense_h_to_4h")
        s["down"] = up * (1 + erf(up / np.sqrt(2))) / 2
        x = x + linear(s["o"], "attention.dense") + linear(s["down"], "mlp.dense_4h_to_h")
        yield {**s, "residual": x}


def rounded(x, bits, site):
    """Each row of the last axis with its own range: symmetric, or asymmetric with or without 0."""
    low, high = x.min(-1, keepdims=True), x.max(-1, keepdims=True)
    if site in ("keys", "values"):
        if site == "keys":
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        step = (high - low) / (2**bits - 1)
        zero = np.rint(-low / step)
        return step * (np.clip(np.rint(x / step) + zero, 0, 2**bits - 1) - zero)
    step = np.maximum(-low, high) / (2 ** (bits - 1) - 1)
    return step * np.clip(np.rint(x / step), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def outliers(x, site):
    flat = x.reshape(*x.shape[:2], -1)
    size, m = np.abs(flat), flat - flat.mean()
    s, t, c = np.unravel_index(size.argmax(), size.shape)
    ranges = np.sort(size.max((0, 1)))[::-1]
    error = lambda bits: np.linalg.norm(rounded(x, bits, site) - x) / np.linalg.norm(x) if site != "residual" else np.nan
    return [(m**4).mean() / (m**2).mean() ** 2, size.max(), size.max() / np.median(size), c, t,
            (1 + np.argmax(np.cumsum(ranges) >= 0.99 * ranges.sum())) / len(ranges), error(4), error(8)]  # fmt: skip


def numbers(cube):
    with h5py.File(cube) as file:
        return np.stack([file["outlier_" + name][0, 0].astype(float) for name in FIELDS], -1)  # (block, site, field)


def compare(family, folder, cube):
    with open(folder + "/config.json", encoding="utf-8") as file:
        config = json.load(file)
    w = {name: x.astype(np.float64) for name, x in load(folder + "/model.safetensors").items()}
    blocks = {"llama": llama, "gpt_neox": gpt_neox}[family](w, config, load(folder + "/reference.safetensors")["input_ids"])
    want = np.array([[outliers(block[site], site) for site in SITES] for block in blocks])
    got = numbers(cube)
    assert got.shape == want.shape, (got.shape, want.shape)
    got[:, SITES.index("residual"), -2:] = np.nan  # not measured
    # the median is of bins; a number on the edge between two codes may go to the other one
    for k, (name, allowed) in enumerate(zip(FIELDS, (2e-5, 2e-5, 5e-3, 0, 0, 0, 1e-3, 1e-3))):
        off = np.abs(got[..., k] / np.where(want[..., k] == 0, 1, want[..., k]) - (want[..., k] != 0))
        worst = np.unravel_index(np.nanargmax(off), off.shape)
        assert np.nanmax(off) <= allowed, (name, worst[0], SITES[worst[1]], got[worst][k], want[worst][k])
    assert np.isnan(got).sum() == np.isnan(want).sum()


def same(first, *cubes):
    with h5py.File(first) as file:
        loss = file["loss"][:], file["baseline_loss"][:]
    for cube in cubes:
        assert numbers(first).tobytes() == numbers(cube).tobytes(), cube
        with h5py.File(cube) as file:
            assert all(a.tobytes() == file[n][:].tobytes() for a, n in zip(loss, ("loss", "baseline_loss"))), cube


def forms(cube, layers):
    got = numbers(cube)
    assert got.shape[0] == int(layers), got.shape
    kurtosis, largest, over, channel, position, channels, four, eight = np.moveaxis(got, -1, 0)
    assert (kurtosis > 1).all() and (largest > 0).all() and (over > 1).all() and (channel >= 0).all() and (position >= 0).all()
    assert ((channels > 0) & (channels <= 1)).all()
    assert (eight[:, :6] < four[:, :6] / 8).all() and (four[:, :6] < 0.5).all(), (four, eight)


def ids(path):
    at = np.array(sys.stdin.read().split()[: 16 * 64], dtype=np.int32).reshape(16, 1, 64)
    save(pathlib.Path(path), {"calibration": at[:8, 0]} | {f"e{i}": at[8 + i] for i in range(8)})


def smollm3(w, c, ids, linear):
    """The losses of the sequences behind the first 8. linear: a stage's outputs from its inputs and weights."""
    x, eps, d = w["model.embed_tokens.weight"][ids], c["rms_norm_eps"], c["hidden_size"] // c["num_attention_heads"]
    split = lambda y: y.reshape(*y.shape[:2], -1, d)
    for i in range(c["num_hidden_layers"]):
        at = lambda *names: [w[f"model.layers.{i}.{name}.weight"] for name in names]
        q, k, v = map(split, linear("qkv", rms(x, *at("input_layernorm"), eps), at("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")))
        if c["no_rope_layers"][i]:
            q, k = (turned(y, c["rope_parameters"]["rope_theta"], d) for y in (q, k))
        x = x + linear("o", attend(q, k, v), at("self_attn.o_proj"))[0]
        gate, up = linear("up", rms(x, *at("post_attention_layernorm"), eps), at("mlp.gate_proj", "mlp.up_proj"))
        x = x + linear("down", gate / (1 + np.exp(-gate)) * up, at("mlp.down_proj"))[0]
    logits = (rms(x, w["model.norm.weight"], eps) @ w["model.embed_tokens.weight"].T)[8:, :-1]
    logits -= logits.max(-1, keepdims=True)
    return (np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, ids[8:, 1:, None], -1)[..., 0]).mean(1)


def on_grid(x, bits, rest, symmetric):
    """f32: rows of x on grids of the columns `rest`, the others as they are (IST-DASLab/QUIK, fake_quant/quant.py)."""
    x = x.astype(np.float32)
    y = x[..., rest]
    low, high = np.minimum(y.min(-1, keepdims=True), 0), np.maximum(y.max(-1, keepdims=True), 0)
    if symmetric:
        most = np.float32(2 ** (bits - 1) - 1)
        step = np.maximum(-low, high) / most
        x[..., rest] = step * np.clip(np.rint(y / step), -most - 1, most)
    else:
        most = np.float32(2**bits - 1)
        step = (high - low) / most
        zero = np.rint(-low / step)
        x[..., rest] = step * (np.clip(np.rint(y / step) + zero, 0, most) - zero)
    return x.astype(np.float64)


def quik_loss(w, c, ids, weights, inputs, threshold=0.0, relative=False, down_bits=0):
    """The losses, and the number of outlier channels of each stage (experiments/fake_quant/quik_utils.py: fp_threshold, fp_relative). Scores are of
    the full-precision model's inputs in the first 8 sequences."""
    counts, scores = [], []

    def full(stage, x, matrices):
        scores.append(np.abs(x[:8]).max((0, 1)))
        return [x @ m.T for m in matrices]

    def linear(stage, x, matrices):
        columns, down = x.shape[-1], stage == "down" and down_bits
        score = scores[len(counts)]
        n = 8 * (columns // c["hidden_size"] if relative else 1) if score.max() > threshold * (2 if down else 1) else 0
        rest = np.sort(np.argsort(score, kind="stable")[: columns - n])
        counts.append(n)
        matrices = [on_grid(m, down or weights, rest, True) if weights < 16 else m for m in matrices]
        x = np.concatenate([x[:8], on_grid(x[8:], down or inputs, rest, False) if inputs < 16 else x[8:]])
        return [x @ m.T for m in matrices]

    smollm3(w, c, ids, full)
    return smollm3(w, c, ids, linear), counts


def quik(folder, file, cube):
    w, config, both = case(folder, file)
    with h5py.File(cube) as found:
        names, bits = [n.decode() for n in found["quantizer"]], list(found["bits"])
        loss, base = found["loss"][0, 0], found["baseline_loss"][0, 0]
    plain, _ = quik_loss(w, config, both, 16, 16)
    assert abs(plain - base).max() < 1e-5, plain - base
    settings = {"all": {}, "threshold": {"threshold": 7.5}, "relative": {"relative": True}, "down": {"threshold": 7.5, "down_bits": 8}}
    for kind, widths in (("inputs", (16, 4)), ("weights", (4, 16))):
        losses, counts = zip(*(quik_loss(w, config, both, *widths, **own) for own in settings.values()))
        got = np.array([loss[bits.index(widths[0]), names.index(f"{kind}-{name}")] for name in settings])
        off = abs(got - losses)
        print(kind, (off < 1e-5).sum(1), off.max(1), (got - base).mean(1), counts)
        # an input's code at a tie that another rounding decides moves what comes behind it in its sequence
        assert (off < 1e-5).sum(1).min() >= (8 if kind == "weights" else 2), off
        assert all((abs(a - b) > 1e-4).all() for i, a in enumerate(got) for b in got[:i]), got
        assert all(0 < np.count_nonzero(counts[i]) < 16 for i in (1, 3)), counts


def lqer_loss(w, c, ids, bits, rank):
    """Round to nearest and a correction (ChengZhang-98/lqer, lqer_act.py and scale.py, with factors in f16)."""

    def linear(stage, x, matrices):
        scale = np.maximum(np.abs(x[:8]).mean((0, 1)), 1e-4)
        scale /= np.sqrt(scale.min() * scale.max())
        out = []
        for m in matrices:
            q = on_grid(m, bits, np.arange(m.shape[1]), True)
            u, s, v = np.linalg.svd(scale[:, None] * (m - q).T, full_matrices=False)
            k = min(rank, len(s))
            first, second = ((y.astype(np.float16)).astype(np.float64) for y in (u[:, :k] / scale[:, None], s[:k, None] * v[:k]))
            out.append(x @ (q + (first @ second).T).T)
        return out

    return smollm3(w, c, ids, linear)


def case(folder, file):
    with open(folder + "/config.json", encoding="utf-8") as text:
        config = json.load(text)
    w = {name: x.astype(np.float64) for name, x in load(folder + "/model.safetensors").items()}
    tokens = load(file)
    return w, config, np.concatenate([tokens["calibration"], *(tokens[f"e{i}"] for i in range(8))])


def lqer(folder, file, cube):
    w, config, both = case(folder, file)
    with h5py.File(cube) as found:
        names, loss, base = [n.decode() for n in found["quantizer"]], found["loss"][0, 0, 0], found["baseline_loss"][0, 0]
        error = dict(zip(names, loss.mean(-1) - base.mean()))
        got = {name: loss[i] for i, name in enumerate(names)}
    # rounding of the inputs, of which the scales are means, turns the vectors of nearly equal singular values that rank 20 cuts
    for rank, allowed in ((0, 1e-5), (3, 1e-5), (20, 1e-4)):
        off = abs(got[f"rank-{rank}"] - lqer_loss(w, config, both, 3, rank))
        print(rank, off.max(), error[f"rank-{rank}"])
        assert off.max() < allowed, (rank, off)
    assert error["rank-0"] > error["rank-3"] > error["rank-20"] > 20 * abs(error["rank-1000"]), error
    assert error["gptq-0"] > error["gptq-20"] and abs(error["gptq-20"]) > 20 * abs(error["gptq-1000"]), error
    assert (got["mixed-20"] != got["rank-20"]).all() and error["mixed-20"] < error["mixed-0"], error


def clusters(x, h, n):
    """x (m) in the n clusters with the least sum of h times squared distances, from all runs of the sorted numbers."""
    order = np.argsort(x, kind="stable")
    x, h = x[order], h[order]
    sums = [np.concatenate([[0], np.cumsum(h * x**k)]) for k in range(3)]
    weight, first, second = (s[1:][None] - s[:-1][:, None] for s in sums)  # of the numbers from i to j
    cost = np.where(np.tri(len(x), k=-1), np.inf, second - first**2 / np.where(weight > 0, weight, 1))
    least, starts = cost[0], [np.zeros(len(x), int)]
    for _ in range(min(n, len(x)) - 1):
        all_starts = np.concatenate([[0], least[:-1]])[:, None] + cost
        starts.append(all_starts.argmin(0))
        least = all_starts.min(0)
    out, end = np.empty(len(x)), len(x)
    while end:
        start = starts.pop()[end - 1]
        out[order[start:end]] = first[start, end - 1] / weight[start, end - 1]
        end = start
    return out


def codebook_loss(w, c, ids, bits, sparse, sensitive):
    """SqueezeLLM's dense and sparse part (SqueezeAILab/SqueezeLLM, squeezellm/outliers.py and quantization/nuq.py) with qtraj's sensitivities."""
    largest = lambda x, percent: x > np.sort(x, None)[::-1][int(x.size * percent / 100)]

    def linear(stage, x, matrices):
        h, out = (x[:8] ** 2).mean((0, 1)), []
        for m in matrices:
            keep = largest(abs(m), sparse) | largest(h * m**2, sensitive)
            q = m.astype(np.float16).astype(np.float64)
            for row, kept, values in zip(m, keep, q):
                values[~kept] = clusters(row[~kept], h[~kept], 2**bits)
            out.append(x @ q.T)
        return out

    return smollm3(w, c, ids, linear)


def agree(folder, file, cube, loss_of, entries):
    """Mean losses of a cube's entries {name: (allowed, settings)}, each sequence within `allowed` of loss_of(weights, config, ids, *settings)."""
    w, config, both = case(folder, file)
    with h5py.File(cube) as found:
        names, loss = [n.decode() for n in found["quantizer"]], found["loss"][0, 0, 0]
    mean = dict(zip(names, loss.mean(-1)))
    for name, (allowed, own) in entries.items():
        off = abs(loss[names.index(name)] - loss_of(w, config, both, *own))
        print(name, off.max(), mean[name])
        assert off.max() < allowed, (name, off)
    return mean


def codebook(folder, file, cube):
    own = {"dense": (0, 0), "sparse": (2, 0), "sensitive": (0, 1.5), "both": (0.45, 0.3)}
    mean = agree(folder, file, cube, codebook_loss, {name: (1e-4, (2, *percent)) for name, percent in own.items()})
    assert min(abs(a - b) for a in mean.values() for b in mean.values() if a is not b) > 1e-3 and mean["dense"] > mean["sparse"], mean


def terms(w, where, n, stored=lambda x: x):
    """Rows of w in n terms there: a mean plus or minus a scale, the next of what is left (Aaronhuang-778/BiLLM, binary.py)."""
    count, mean, out = np.maximum(where.sum(1, keepdims=True), 1), 0, 0
    for _ in range(n):
        m = np.where(where, w, 0).sum(1, keepdims=True) / count
        scale = np.where(where, abs(w - m), 0).sum(1, keepdims=True) / count
        sign = np.where(w < m, -1, 1)
        mean, out, w = mean + m, out + sign * stored(scale), w - m - sign * scale
    return np.where(where, stored(mean) + out, 0)


def binary(w, d, stored):
    """A block (utils/autosearch.py, structure.py and mask.py), d: the diagonal of U in its columns."""
    s = (w / d) ** 2
    order, first = np.argsort(-s.sum(0), kind="stable"), lambda k: np.isin(np.arange(w.shape[1]), order[:k]) & np.full(w.shape, True)
    error = lambda *parts: ((s - sum(terms(s, *part) for part in parts)) ** 2).sum()
    salient = first(1 + np.argmin([error((first(k), 2), (~first(k), 2)) for k in range(1, min(50, w.shape[1]))]))
    points = np.quantile(s * ~salient, np.linspace(0.1, 0.9, 81))
    large = s >= points[np.argmin([error((salient, 2), (~salient & (s < p), 1), (~salient & (s >= p), 1)) for p in points])]
    return sum(terms(w, *part, stored) for part in ((salient, 2), (~salient & large, 1), (~salient & ~large, 1)))


def billm_loss(w, c, ids, block, feedback, stored):
    """All of bigptq.py."""

    def linear(stage, x, matrices):
        x8, out = x[:8].reshape(-1, x.shape[-1]), []
        h = x8.T @ x8
        u = np.linalg.cholesky(np.linalg.inv(h + 0.01 * np.diag(h).mean() * np.eye(len(h)))).T
        for m in matrices:
            m = m.copy()
            for a in range(0, len(h), block):
                b, d = min(a + block, len(h)), np.diag(u)[a : a + block]
                q = binary(m[:, a:b], d, stored)
                m[:, b:] -= feedback * ((m[:, a:b] - q) / d) @ u[a:b, b:]
                m[:, a:b] = q
            out.append(x @ m.T)
        return out

    return smollm3(w, c, ids, linear)


def billm(folder, file, cube):
    f16 = lambda x: x.astype(np.float16).astype(np.float64)
    # an f16 number at a tie may go to the other side
    mean = agree(folder, file, cube, billm_loss, {"closed": (1e-5, (128, True, np.float64)), "open": (1e-4, (128, False, f16)), "narrow": (1e-5, (45, True, np.float64))})
    assert min(abs(a - b) for a in mean.values() for b in mean.values() if a is not b) > 1e-2, mean


globals()[sys.argv[1]](*sys.argv[2:])
