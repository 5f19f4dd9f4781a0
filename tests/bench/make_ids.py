#!/usr/bin/env python3
"""Writes random token ids as safetensors: make_ids.py OUT.safetensors VOCAB KEY=SEQUENCES,LENGTH ..."""
import json
import struct
import sys

import numpy as np

out, vocab = sys.argv[1], int(sys.argv[2])
rng, header, parts, at = np.random.default_rng(1), {}, [], 0
for item in sys.argv[3:]:
    key, shape = item.split("=")
    shape = [int(n) for n in shape.split(",")]
    data = rng.integers(0, vocab, shape, dtype="<i8").tobytes()
    header[key] = {"dtype": "I64", "shape": shape, "data_offsets": [at, at + len(data)]}
    parts.append(data)
    at += len(data)
text = json.dumps(header).encode()
with open(out, "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
