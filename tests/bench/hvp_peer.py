"""Hessian-vector products by torch's double backward, as PyHessian computes them: the peer of bench_hvp.

    PYTHON hvp_peer.py DIR THREADS SEQUENCES LENGTH [ROUNDS]     PYTHON with torch and transformers

DIR: a checkpoint of a family that transformers knows. In f32, with eager attention (the fused kernels have no double backward),
on random tokens. Prints one JSON object; times are the minimum over the rounds, in seconds (of the processor with
QTRAJ_BENCH_CPU=1, as bench_hvp): a forward pass, a product from scratch
(loss, gradient with its graph, gradient of gradient·v) and a further product, for which the graph is retained."""
import json
import os
import resource
import sys
import time

import torch
from transformers import AutoModelForCausalLM

folder, threads, n, length = sys.argv[1], *map(int, sys.argv[2:5])
rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 3
torch.set_num_threads(threads)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
parameters = list(model.parameters())
v = [torch.randint_like(p, 2) * 2 - 1 for p in parameters]
ids = torch.randint(model.config.vocab_size, (n, length))
best = {}
clock = time.process_time if os.environ.get("QTRAJ_BENCH_CPU") else time.perf_counter


def loss():
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def timed(name, start):
    best[name] = min(best.get(name, float("inf")), clock() - start)


for _ in range(rounds):
    start = clock()
    with torch.no_grad():
        loss()
    timed("forward", start)
    start = clock()
    gradient = torch.autograd.grad(loss(), parameters, create_graph=True)
    torch.autograd.grad(gradient, parameters, grad_outputs=v, retain_graph=True)
    timed("product", start)
    start = clock()
    torch.autograd.grad(gradient, parameters, grad_outputs=v, retain_graph=True)
    timed("product_kept", start)
    del gradient
report = {"tokens": n * length, "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}
print(json.dumps(report | {name: round(seconds, 3) for name, seconds in best.items()}))
