#!/usr/bin/env python3
"""A Llama that `qtraj quantize --method trellis --format qtraj` packed, in the layout of QTIP's authors (github.com/Cornell-RelaxML/qtip):
qtip_layout.py FOLDER --out OUT.  Codes stay what they are; docs/export.md says what the layout cannot hold."""
import argparse
import json
import pathlib
import shutil
import sys

import interpreter  # noqa: F401: before the first import that may fail
import numpy as np

NUMPY = {"F32": "<f4", "U8": "u1"}
DTYPES = {"<i2": "I16", "<i8": "I64", "<f2": "F16", "<f4": "F32"}
MODES = {"1mad": "1mad", "3inst": "3inst", "hyb": "quantlut_sym"}
LINEARS = {"self_attn.q_proj": "q", "self_attn.k_proj": "k", "self_attn.v_proj": "v", "self_attn.o_proj": "o",
           "mlp.up_proj": "up", "mlp.gate_proj": "gate", "mlp.down_proj": "down"}


def need(holds, why):
    if not holds:
        sys.exit(f"error: {why}")


def tensors(folder):
    """Name -> (dtype, shape, bytes) of all safetensors files of a folder."""
    out = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = np.memmap(path, np.uint8, "r")
        begin = 8 + int.from_bytes(data[:8].tobytes(), "little")
        for name, t in json.loads(data[8:begin].tobytes()).items():
            if name != "__metadata__":
                first, end = t["data_offsets"]
                out[name] = t["dtype"], t["shape"], data[begin + first : begin + end]
    return out


def numbers(tensor):
    return tensor[2].view(NUMPY[tensor[0]]).reshape(tensor[1])


def stored(array):
    return DTYPES[array.dtype.newbyteorder("<").str], list(array.shape), np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def layout(stem, codes, signs, scale, q):
    """The tensors of a linear: QuantizedLinear's buffers (lib/linear/quantized_linear.py)."""
    rows, bytes_of_tile = 16 * len(codes), 32 * q["bits"]
    cols = codes.shape[1] // bytes_of_tile * 16
    for n in (rows, cols):
        need(n & (n - 1) == 0, f"{stem} has {n} channels on a side; only for powers of two the authors' Hadamard matrices are qtraj's")
    d = 1.0 - 2 * np.unpackbits(signs.reshape(-1))[: rows + cols]
    words = codes.reshape(-1, bytes_of_tile // 2, 2)[..., ::-1]  # 16-bit words, in which the first bit of the trellis is the highest
    out = {"trellis": np.ascontiguousarray(words).view("<i2")[..., 0], "SU": d[:cols].astype("<f2"),
           "SV": (d[cols:] * np.float64(scale)).astype("<f4"), "rcp": np.array(0), "tp_rank": np.array(8)}
    if q["code"] == "hyb":
        out["tlut"] = np.array(q["table"], "<f2").reshape(-1, 2)
    return {f"{stem}.{name}": stored(array) for name, array in out.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":", 1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder that does not exist")
    a = parser.parse_args()
    need((a.folder / "config.json").is_file(), f"{a.folder} has no config.json")
    need(not a.out.exists(), f"{a.out} exists")
    config = json.loads((a.folder / "config.json").read_text())
    q = config.pop("quantization_config", {})
    need(q.get("quant_method") == "qtraj" and q["code"] in MODES and q["incoherence"],
         f"{a.folder} holds no trellis codes of mixed weights (qtraj quantize --method trellis --format qtraj)")
    need(config["model_type"] == "llama", f"the model is {config['model_type']}; the authors' program has llama alone")
    need(not (q["code"] == "hyb" and q["window"] == 16 and q["bits"] >= 2),
         "for hyb with 2 to 4 bits and a window of 16 the layout has tiles in the order of the authors' GPU kernel, in which qtraj does not search: take another window or code")
    old, new = tensors(a.folder), {}
    stems = [name[: -len(".codes")] for name in old if name.endswith(".codes")]
    for stem in stems:
        new.update(layout(stem, *(numbers(old.pop(f"{stem}.{part}")) for part in ("codes", "signs")), numbers(old.pop(f"{stem}.scale"))[0, 0], q))
    skipped = [f"{i}_{short}" for i in range(config["num_hidden_layers"]) for name, short in LINEARS.items() if f"model.layers.{i}.{name}" not in stems]
    config["quip_params"] = {"codebook": "bitshift", "codebook_version": 0, "L": q["window"], "K": q["bits"], "V": 2 if q["code"] == "hyb" else 1,
                             "tlut_bits": 9 if q["code"] == "hyb" else 0, "decode_mode": MODES[q["code"]], "td_x": 16, "td_y": 16,
                             "split_for_tp": False, "skip_list": skipped}
    part = a.out.with_name(a.out.name + ".tmp")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(a.folder, part, ignore=shutil.ignore_patterns("*.safetensors*", "config.json", "README.md"))
    (part / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in {**old, **new}.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(part / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, _, data in {**old, **new}.values():
            f.write(data.tobytes())
    part.rename(a.out)


if __name__ == "__main__":
    main()
