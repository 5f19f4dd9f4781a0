"""break_checkpoint.py SOURCE DESTINATION FAULT: a copy of a checkpoint with one fault in its model.safetensors.

truncated      the file ends in the middle of its tensors
header_length  the header claims to be longer than the file
shape          the first mlp.down_proj.weight has its dimensions swapped
missing        that tensor is missing
nan            its first weight (bf16) is NaN
overflow       all weights of the first mlp.up_proj are 3e38: its outputs are infinite
large          all weights of the first mlp.up_proj are 61,440: its outputs are numbers of f32, but not of f16
"""

import json
import pathlib
import shutil
import struct
import sys

TENSOR = "model.layers.0.mlp.down_proj.weight"


def rewrite(path, header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    source, destination, fault = sys.argv[1:]
    shutil.copytree(source, destination)
    path = pathlib.Path(destination, "model.safetensors")
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    if fault == "truncated":
        path.write_bytes(raw[: len(raw) // 2])
    elif fault == "header_length":
        path.write_bytes(struct.pack("<Q", 10 * len(raw)) + raw[8:])
    elif fault == "shape":
        header[TENSOR]["shape"].reverse()
        rewrite(path, header, data)
    elif fault == "missing":
        # removes the name but not the bytes: the file stays well-formed
        header["unused"] = header.pop(TENSOR)
        rewrite(path, header, data)
    elif fault == "nan":
        at = header[TENSOR]["data_offsets"][0]
        rewrite(path, header, data[:at] + b"\xc0\x7f" + data[at + 2 :])
    elif fault in ("overflow", "large"):
        first, end = header[TENSOR.replace("down", "up")]["data_offsets"]
        rewrite(path, header, data[:first] + (b"\x61\x7f" if fault == "overflow" else b"\x70\x47") * ((end - first) // 2) + data[end:])
    else:
        sys.exit(f"unknown fault {fault}")


main()
