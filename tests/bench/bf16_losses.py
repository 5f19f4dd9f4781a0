"""Losses of qtraj in bf16 beside those of transformers in bf16, both against transformers in f64.

    PYTHON bf16_losses.py QTRAJ FOLDER [FLAGS ...]     PYTHON with torch, safetensors and transformers

FOLDER/NAME has a model and reference.safetensors with input_ids; FLAGS are those of `qtraj eval`, one set an argument (default
--products=bf16). Prints the root mean square of the difference over the sequences of each model, and over all."""
import glob
import json
import math
import os
import subprocess
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

qtraj, folder, sets = sys.argv[1], sys.argv[2], sys.argv[3:] or ["--products=bf16"]


def peer(path, sequences, dtype):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval()
    with torch.no_grad():
        logits = [model(input_ids=s[None]).logits[0].double() for s in sequences]
    return [torch.nn.functional.cross_entropy(z[:-1], s[1:]).item() for z, s in zip(logits, sequences)]


def ours(path, reference, flags):
    command = [qtraj, "eval", path, "--ids", f"{reference}:input_ids", "--json", *flags.split()]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["loss_per_sequence"]


def rms(errors):
    return math.sqrt(sum(e * e for e in errors) / len(errors))


errors = {}
for reference in sorted(glob.glob(f"{folder}/*/reference.safetensors")):
    path = os.path.dirname(reference)
    sequences = load_file(reference)["input_ids"].long()
    try:
        exact = peer(path, sequences, torch.float64)
    except ValueError:
        print(f"{os.path.basename(path):22s} is unknown to transformers")
        continue
    losses = {"transformers": peer(path, sequences, torch.bfloat16)} | {f: ours(path, reference, f) for f in sets}
    for name, values in losses.items():
        own = [a - b for a, b in zip(values, exact)]
        errors.setdefault(name, []).extend(own)
        print(f"{os.path.basename(path):22s} {name:28s} {rms(own):.2e}")
for name, own in errors.items():
    print(f"{len(own)} sequences, {name}: {rms(own):.3e}, {rms(own) / rms(errors['transformers']):.2f} of transformers'")
