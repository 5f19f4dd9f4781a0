"""AWQ of mixed weights (mixing: hadamard, scaled: free) for a linear behind the first norm of a llama, written from the papers alone, since
no package has both: W R, the scale search and the clip search of AWQ with the inputs x R, rounding, and back by the transpose."""
import numpy as np

MASK = (1 << 64) - 1


def mixing(n, stream):
    """Sylvester's matrix times the signs of docs/math, over sqrt(n); n a power of two."""
    h = np.ones((1, 1))
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    signs = []
    for i in range(n):
        x = (i * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        signs.append(1 if (x ^ (x >> 31)) >> 63 else -1)
    return h * np.array(signs) / np.sqrt(n)


def inputs(model, ids, eps):
    """Of the first block's q, k and v: (tokens, hidden)."""
    x = model["model.embed_tokens.weight"][ids.reshape(-1)].astype(float)
    return x / np.sqrt((x * x).mean(1, keepdims=True) + eps) * model["model.layers.0.input_layernorm.weight"]


def rounded(w, bits):
    """w (groups, size) on grids from minimum to maximum that hold zero."""
    low, high, most = np.minimum(w.min(1, keepdims=True), 0), np.maximum(w.max(1, keepdims=True), 0), 2**bits - 1
    scale = np.maximum(high - low, 1e-5) / most
    zero = np.round(-low / scale)
    return scale * (np.clip(np.round(w / scale) + zero, 0, most) - zero)


def clipped(w, x, bits):
    """w (rows, size) of one group, clamped to the range of 100, 95, ... 55 % whose rounding changes x wᵀ least."""
    largest, least, best = np.abs(w).max(1, keepdims=True), None, w
    for step in range(10):
        part = np.clip(w, -largest * (1 - step / 20), largest * (1 - step / 20))
        error = ((x @ (rounded(part, bits) - w).T) ** 2).sum(0)[:, None]
        better = error < least if step else np.ones_like(error, bool)
        least, best = np.where(better, error, least) if step else error, np.where(better, part, best)
    return best


def quantize(weight, x, bits, group, clip):
    r = mixing(weight.shape[1], 0)
    w, x = (weight.astype(float) @ r).astype(np.float32).astype(float), x @ r
    sample = x[:: max(len(x) // 512, 1)]
    magnitude, gram = np.abs(sample).mean(0), x.T @ x
    least, scale = np.inf, None
    for k in range(20):
        s = np.maximum(magnitude ** (k / 20), 1e-4)
        s = s / np.sqrt(s.max() * s.min())
        change = rounded((w * s).reshape(-1, group), bits).reshape(w.shape) / s - w
        error = np.sum((change @ gram) * change)
        if error < least:
            least, scale = error, s
    w = w * scale
    for a in range(0, w.shape[1], group):
        part = w[:, a:a + group]
        w[:, a:a + group] = rounded(clipped(part, sample[:, a:a + group] / scale[a:a + group], bits) if clip else part, bits)
    return w / scale @ r.T
