#!/usr/bin/env python3
"""Scoring of variants with 8-bit inputs: in products of integers, and simulated in f32, beside that of the checkpoint in f32.

usage: integers.py QTRAJ [--sequences 16] [--length 512] [--rounds 3] [--work DIR]

Random weights in the shape of SmolLM2-135M (30 layers, hidden size 576, 9 heads, 3 of keys and values, 1536 inside), but with a vocabulary
of 8,192. In each round `qtraj eval` scores the checkpoint, then visits with one rtn variant each run as they are and with
ONEDNN_MAX_CPU_ISA=AVX512_CORE, which forbids products of bytes and nothing that f32 uses. Processor times of one thread; a variant's is
what its visit takes more than `eval`, its rounding included.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
VARIANTS = {"W8A8, rows": (8, -1), "W4A8, groups of 128": (4, 128)}


def seconds(command, **environment):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **environment})
    if done.returncode:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def visit(qtraj, work, at, bits, group, isa):
    """Seconds of a visit with one variant, its loss, and what multiplied."""
    sweep = {"name": "bench", "results": f"{work}/{at}.h5", "models": [{"name": "m", "trajectory": f"{work}/one.csv", "path": f"{work}/model"}],
             "methods": [{"method": "rtn", "bits": [bits], "group_size": group, "activations": {"bits": 8}}],
             "evaluation": [{"name": "text", "ids": f"{work}/ids.safetensors:evaluation"}], "run": {"threads": 1}}
    with open(f"{work}/{at}.yaml", "w") as f:
        json.dump(sweep, f)
    took = seconds([qtraj, "run", f"{work}/{at}.yaml"], **({"ONEDNN_MAX_CPU_ISA": isa} if isa else {}))
    cube = h5py.File(f"{work}/{at}.h5")
    loss = np.asarray(cube["loss"], float).ravel()
    by = str(cube["cells/fingerprint"].asstr()[:].ravel()[-1])
    return took, loss[np.isfinite(loss)][0], by[by.index("integers "):].split(";")[0]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("qtraj")
    p.add_argument("--sequences", type=int, default=16)
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--work")
    a = p.parse_args()
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        with open(f"{work}/one.csv", "w") as f:
            f.write("checkpoint\nonly\n")
        subprocess.run([sys.executable, f"{HERE}/make_checkpoint.py", a.qtraj, f"{work}/model", "--family", "llama", "--hidden", "576", "--layers", "30",
                        "--heads", "9", "--kv-heads", "3", "--intermediate", "1536", "--vocab", "8192"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, f"{HERE}/make_ids.py", f"{work}/ids.safetensors", "8192", f"evaluation={a.sequences},{a.length}"], check=True)
        f32, took, said = [], {}, {}
        for i in range(a.rounds):
            f32.append(seconds([a.qtraj, "eval", f"{work}/model", "--ids", f"{work}/ids.safetensors:evaluation"]))
            for k, (name, (bits, group)) in enumerate(VARIANTS.items()):
                for isa in ("", "AVX512_CORE"):
                    one, loss, by = visit(a.qtraj, work, f"{i}-{k}{isa}", bits, group, isa)
                    took.setdefault((name, by), []).append(one - f32[-1])
                    said[name, by] = loss
            print(f"round {i + 1}: f32 {f32[-1]:.2f}, " + ", ".join(f"{name}, {by}: {x[-1]:.2f}" for (name, by), x in took.items()), flush=True)
    own = statistics.median(f32)
    print(f"the checkpoint in f32: {own:.2f} s")
    for (name, by), x in took.items():
        print(f"{name}, {by}: {statistics.median(x):.2f} s, f32 takes {own / statistics.median(x):.2f} times as long; loss {said[name, by]:.6f}")


main()
