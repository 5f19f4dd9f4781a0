#!/usr/bin/env python3
"""Cost of variants inside a visit, and memory of a visit.

usage: visit.py QTRAJ [costs] [memory] [third] [methods] [--hidden 576 --intermediate 1536 --heads 9 --layers 4 --vocab 6554]
                [--calibration 16] [--evaluation 32] [--length 512] [--threads 2] [--work DIR] [--cpu]

costs   time of the whole visit relative to the sum of its parts (target 1.1 or less), of 8 gptq variants with own Hessians to
        eight visits of one variant (0.7 or less), and with the shared Hessian to a visit of one variant (3.5 or less)
memory  peak of 32 layers relative to 4 (1.05 or less), and planned relative to measured peaks (within 15 %)
methods a visit with 12 variants of 8 methods against one with a single gptq variant, and what each variant adds to a visit alone
third   memory_per_rank a third of what the first run used: the same cube, no rank above the limit

Wall times; --cpu: processor times of the whole processes instead, for shared machines (OMP_WAIT_POLICY=passive).
The default shape is a 135M llama with proportionally fewer layers and vocabulary, so blocks and head have the same share.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import h5py

HERE = os.path.dirname(os.path.abspath(__file__))
EIGHT = [{"bits": [b], "group_size": g, "name": f"{b}-{g}"} for b in (2, 3, 4, 8) for g in (64, 128)]

PLAIN = {"rtn", "hqq", "nf4", "int8", "q4_k", "q6_k", "iq4_nl"}  # quantize without calibration


class Bench:
    def __init__(self, a, work):
        self.a, self.work = a, work
        self.models = {}
        with open(f"{work}/one.csv", "w") as f:
            f.write("checkpoint\nonly\n")
        subprocess.run([sys.executable, f"{HERE}/make_ids.py", f"{work}/ids.safetensors", str(a.vocab),
                        f"calibration={a.calibration},{a.length}", f"evaluation={a.evaluation},{a.length}"], check=True)

    def model(self, layers):
        path = f"{self.work}/model-{layers}"
        if not os.path.isdir(path):
            a = self.a
            subprocess.run([sys.executable, f"{HERE}/make_checkpoint.py", a.qtraj, path, "--family", "llama", "--hidden", str(a.hidden),
                            "--layers", str(layers), "--heads", str(a.heads), "--intermediate", str(a.intermediate), "--vocab",
                            str(a.vocab), "--set", "tie_word_embeddings=true"], check=True)
        return path

    def run(self, name, layers, methods, **run):
        """Runs a sweep of one visit; returns its seconds and the cube."""
        results = f"{self.work}/{name}.h5"
        for path in (results, results[:-3] + ".journal"):
            if os.path.exists(path):
                os.remove(path)
        sweep = {"name": "bench", "results": results, "models": [{"name": "m", "trajectory": f"{self.work}/one.csv", "path": self.model(layers)}],
                 "methods": methods, "calibration": {"ids": f"{self.work}/ids.safetensors:calibration"},
                 "evaluation": [{"name": "text", "ids": f"{self.work}/ids.safetensors:evaluation"}],
                 "run": {"threads": self.a.threads, **run}}
        if all(m["method"] in PLAIN and "importance" not in m for m in methods):
            del sweep["calibration"]  # which has no effect
        with open(f"{self.work}/sweep.yaml", "w") as f:
            json.dump(sweep, f)
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
        done = subprocess.run([self.a.qtraj, "run", f"{self.work}/sweep.yaml"], capture_output=True, text=True,
                              env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cube = h5py.File(results)
        wall = float(cube["checkpoint_seconds"][0, 0])
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"  {name}: {wall:.2f} s, {cpu:.2f} s of processors, {time.time() - start:.2f} s start to end", flush=True)
        return cpu if self.a.cpu else wall, cube


def of_checkpoint(cube, name):
    return float(cube[f"checkpoint_{name}"][0, 0])


def parts(cube):
    """Losses of full precision and of the variants, from the cube."""
    full = sum(of_checkpoint(cube, f"seconds_{part}") for part in ("read", "forward", "hessian", "head"))
    cells = cube["seconds"][()]
    return full + float(cells[cells == cells].sum())


def phases(cube):
    of_cells = {part: cube[f"seconds_{part}"][()] for part in ("forward", "hessian", "factor", "sweep")}
    text = [f"{part} {float(x[x == x].sum()):.2f}" for part, x in of_cells.items()]
    full = [f"{part} {of_checkpoint(cube, f'seconds_{part}'):.2f}" for part in ("read", "forward", "hessian", "head")]
    print(f"    variants: {', '.join(text)}; full precision: {', '.join(full)} s")


def peaks(cube):
    return of_checkpoint(cube, "peak_memory") / 2**20, of_checkpoint(cube, "planned_memory") / 2**20


def gptq(variants, **options):
    return [{"method": "gptq", **v, **options} for v in variants]


def costs(bench):
    layers = bench.a.layers
    print(f"costs: {bench.a.evaluation * bench.a.length} evaluation, {bench.a.calibration * bench.a.length} calibration tokens")
    alone = [bench.run(f"alone-{v['name']}", layers, gptq([v]))[0] for v in EIGHT]
    own, cube = bench.run("own", layers, gptq(EIGHT))
    phases(cube)
    whole = of_checkpoint(cube, "seconds")
    print(f"8 variants, own Hessians: {whole / parts(cube):.3f} of full precision + the variants' parts (wall times, to be <= 1.1)")
    print(f"8 variants, own Hessians: {own / sum(alone):.3f} of eight visits (to be <= 0.7)")
    shared, cube = bench.run("shared", layers, gptq(EIGHT, hessian="shared"))
    phases(cube)
    print(f"8 variants, shared Hessians: {of_checkpoint(cube, 'seconds') / parts(cube):.3f} of the parts (to be <= 1.1)")
    print(f"8 variants, shared Hessians: {shared / (sum(alone) / 8):.3f} of one visit (to be <= 3.5)")


def memory(bench):
    print("memory: 2 gptq variants and rtn")
    methods = gptq(EIGHT[:2]) + [{"method": "rtn", "bits": [4]}]
    shallow, deep = (peaks(bench.run(f"layers-{n}", n, methods)[1]) for n in (4, 32))
    for n, (measured, planned) in ((4, shallow), (32, deep)):
        print(f"{n} layers: measured {measured:.1f}, planned {planned:.1f} MiB: {planned / measured:.3f} (to be within 15 %)")
    print(f"32 layers take {deep[0] / shallow[0]:.3f} of what 4 take (to be <= 1.05)")


def third(bench):
    print("third: 8 own variants, 8 shared, rtn")
    methods = gptq(EIGHT) + gptq([{**v, "name": v["name"] + "-shared"} for v in EIGHT], hessian="shared") + [{"method": "rtn", "bits": [4]}]
    free = peaks(bench.run("free", 4, methods)[1])[0]
    for name, bound, more in (("third", free / 3, {}), ("waves", free / 3, {"scratch": "off"})):
        measured, planned = peaks(bench.run(name, 4, methods, memory_per_rank=f"{int(bound)}M", **more)[1])
        print(f"{name}: bound {bound:.0f}, measured {measured:.1f}, planned {planned:.1f} MiB; free: {free:.1f} MiB")
        subprocess.run([sys.executable, f"{HERE}/../tools/compare_cubes.py", f"{bench.work}/free.h5", f"{bench.work}/{name}.h5"], check=True)


TWELVE = [{"method": "rtn", "bits": [3]}, {"method": "rtn", "bits": [4]}, {"method": "gptq", "bits": [3]}, {"method": "gptq", "bits": [4]},
          {"method": "gptaq", "bits": [3]}, {"method": "gptaq", "bits": [4]}, {"method": "awq", "bits": [3]}, {"method": "awq", "bits": [4]},
          {"method": "hqq", "bits": [4]}, {"method": "nf4", "bits": [4]}, {"method": "codebook", "bits": [4]}, {"method": "int8", "bits": [8]}]
MORE = [{"method": "awq", "bits": [4], "scaled": "free"}, {"method": "rtn", "bits": [4], "mixing": "hadamard"},
        {"method": "gptq", "bits": [4], "mixing": "hadamard"}, {"method": "smoothquant", "bits": [8]},
        {"method": "q4_k", "bits": [4]}, {"method": "q4_k", "bits": [4], "importance": True}, {"method": "q6_k", "bits": [6]},
        {"method": "iq4_nl", "bits": [4]}]


def named(variant):
    extra = "".join(f"-{v}" for k, v in variant.items() if k not in ("method", "bits"))
    return {"name": f"{variant['method']}{extra}-{variant['bits'][0]}", **variant}


def methods(bench):
    print("methods: 12 variants of 8 methods")
    layers = bench.a.layers
    twelve = [named(v) for v in TWELVE]
    nothing = bench.run("rtn alone", layers, twelve[:1])[0]
    one = bench.run("gptq alone", layers, twelve[3:4])[0]
    all_, cube = bench.run("twelve", layers, twelve)
    phases(cube)
    print(f"12 variants: {all_ / one:.2f} of a visit with one gptq variant")
    print("each variant alone, beside rtn: its visit's time minus that of rtn, in visits with one gptq variant")
    for variant in twelve[1:] + [named(v) for v in MORE]:
        alone = bench.run(variant["name"], layers, [variant])[0]
        print(f"  {variant['name']}: {alone / one:.2f} of gptq's visit, {(alone - nothing) / one:+.2f} beside rtn's")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("qtraj", type=os.path.abspath)
    p.add_argument("what", nargs="*")
    for name, value in (("hidden", 576), ("intermediate", 1536), ("heads", 9), ("layers", 4), ("vocab", 6554), ("calibration", 16),
                        ("evaluation", 32), ("length", 512), ("threads", 2)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--work")
    p.add_argument("--cpu", action="store_true")
    a = p.parse_args()
    steps = {"costs": costs, "memory": memory, "third": third, "methods": methods}
    for what in a.what:
        if what not in steps:
            p.error(f"{what}: expected one of {', '.join(steps)}")
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(a, a.work or work)
        for what in a.what or steps:
            steps[what](bench)


main()
