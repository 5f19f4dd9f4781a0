"""overlay_checkpoint.py BASE WEIGHTS.safetensors OUT: a copy of the checkpoint folder BASE with its tensors replaced by those
of WEIGHTS. Plain Python; BASE has one model.safetensors."""
import json
import os
import shutil
import struct
import sys


def read(path):
    with open(path, "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(length))
        data = f.read()
    header.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in header.items()}


base, weights, out = sys.argv[1:]
tensors = read(f"{base}/model.safetensors")
over = read(weights)
for name in over:
    assert tensors[name][1] == over[name][1], name
tensors.update(over)
header, at = {}, 0
for name, (dtype, shape, data) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
    at += len(data)
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
os.makedirs(out)
shutil.copy(f"{base}/config.json", out)
with open(f"{out}/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    for _, _, data in tensors.values():
        f.write(data)
