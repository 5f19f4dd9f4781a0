"""The sequences of a run of qtraj train in the order of its data: the first are held out.
    held_out.py OUTPUT/RUN OUTPUT/tokens-....i32 OUT.safetensors     writes those as the tensor `ids`"""
import json, os, struct, sys
import numpy as np

MASK = (1 << 64) - 1


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def order(seed, n):
    """The permutation of all chunks (src/train/corpus.c)."""
    stream = mix(seed * 0x9E3779B97F4A7C15 & MASK) + (1 << 32)
    x = list(range(n))
    for i in range(n - 1, 0, -1):
        j = mix((i * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) & MASK) % (i + 1)
        x[i], x[j] = x[j], x[i]
    return x


def sequences(run, tokens):
    """All sequences in order, and how many are held out."""
    settings = json.load(open(os.path.join(run, "run.json")))
    length = settings["batch"]["length"]
    ids = np.fromfile(tokens, dtype=np.int32)
    ids = np.where(ids < 0, ~ids, ids).astype("<i8")
    chunks = ids[: len(ids) // (length + 1) * (length + 1)].reshape(-1, length + 1)
    return chunks[order(settings["data_seed"], len(chunks))], -(-settings["validation"] // (length + 1))


if __name__ == "__main__":
    run, tokens, out = sys.argv[1:]
    chunks, held = sequences(run, tokens)
    data = chunks[:held].tobytes()
    header = json.dumps({"ids": {"dtype": "I64", "shape": [held, chunks.shape[1]], "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(out, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)
