"""Losses of qtraj in bf16 beside those of transformers in bf16, both against transformers in f64.

    PYTHON bf16_losses.py QTRAJ FOLDER [--save FILE] [FLAGS ...]     PYTHON with torch, safetensors and transformers

FOLDER/NAME has a model and reference.safetensors with input_ids; FLAGS are those of `qtraj eval`, one set an argument (default
--products=bf16). Prints for each model, and for all, the root mean square over its sequences of the difference from transformers in
f64, from transformers in bf16, and from the latter with exact exponentials in its attention, where torch's own on CPUs err by 2^-20.
--save writes the losses of transformers, which eval.test_parity reads from tests/fixtures/models/bf16_losses.json."""
import glob
import json
import math
import os
import subprocess
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

qtraj, folder, *rest = sys.argv[1:]
save = rest[1] if rest[:1] == ["--save"] else None
sets = rest[2 * bool(save):] or ["--products=bf16"]


def attention(query, key, value, attn_mask=None, dropout_p=0.0, scale=None, is_causal=False, enable_gqa=False):
    """scaled_dot_product_attention with the roundings of torch's kernel for bf16 and exact exponentials."""
    n, T = query.shape[1] // key.shape[1], key.shape[2]
    key, value = (x.double().repeat_interleave(n, 1) for x in (key, value))
    scores = query.double() @ key.transpose(-1, -2) * (scale or 1 / math.sqrt(query.shape[-1]))
    if is_causal:
        attn_mask = torch.ones(T, T, dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask.double()
    p = torch.exp(scores - scores.max(-1, keepdim=True).values)
    return (p.bfloat16().double() @ value / p.sum(-1, keepdim=True)).float().bfloat16()


def peer_exact(path, sequences):
    own = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = attention
    try:
        return peer(path, sequences, torch.bfloat16)
    finally:
        torch.nn.functional.scaled_dot_product_attention = own


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


PEER, EXACT = "transformers", "transformers, exact exponentials"
errors, apart, apart_exact, saved = {}, {}, {}, {}
for reference in sorted(glob.glob(f"{folder}/*/reference.safetensors")):
    path = os.path.dirname(reference)
    name = os.path.basename(path)
    sequences = load_file(reference)["input_ids"].long()
    try:
        exact = peer(path, sequences, torch.float64)
    except ValueError:
        print(f"{name:22s} is unknown to transformers")
        continue
    losses = {PEER: peer(path, sequences, torch.bfloat16), EXACT: peer_exact(path, sequences)}
    saved[name] = {"f64": exact, "bf16": losses[PEER], "bf16_exact": losses[EXACT]}
    losses |= {f: ours(path, reference, f) for f in sets}
    for flags, values in losses.items():
        own = [a - b for a, b in zip(values, exact)]
        other, close = ([a - b for a, b in zip(values, losses[p])] for p in (PEER, EXACT))
        errors.setdefault(flags, []).extend(own)
        apart.setdefault(flags, []).extend(other)
        apart_exact.setdefault(flags, []).extend(close)
        print(f"{name:20s} {flags:32s} from f64 {rms(own):.1e}, from transformers {rms(other):.1e}, exact {rms(close):.1e}")
for flags, own in errors.items():
    print(f"{len(own)} sequences, {flags}: {rms(own):.3e} from f64, {rms(own) / rms(errors[PEER]):.2f} of transformers'; "
          f"{rms(apart[flags]):.2e} from transformers in bf16, {rms(apart_exact[flags]):.2e} with exact exponentials")
if save:
    with open(save, "w") as f:
        json.dump(saved, f, indent=1)
        f.write("\n")
