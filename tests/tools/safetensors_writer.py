"""Writes a dictionary of numpy arrays as a safetensors file, largest items first."""
import json
import struct

TYPES = {"float64": "F64", "float32": "F32", "int32": "I32", "int16": "I16", "uint8": "U8", "int8": "I8"}


def save(path, tensors):
    header, data = {}, b""
    for name, values in sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])):
        raw = values.tobytes()
        header[name] = {"dtype": TYPES[values.dtype.name], "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
