#!/usr/bin/env python3
"""The tables of docs/methods.md, from the cubes of methods.yaml and trellis.yaml: error in percent at three checkpoints, with half of its
95 % interval; and what `qtraj plan` says of each entry.
PYTHONPATH=analysis python3 configs/quickstart/methods_table.py QTRAJ results/methods.h5 [PAGE.md]

Prints it, or puts it between the page's line <!-- table NAME -->, of the cube's file, and the next <!-- end -->."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

import qtraj
from qtraj.figures.frontier import moments

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parents[1] / "tests/fixtures/models"
FAMILIES = ("llama", "qwen2", "qwen3", "smollm3", "olmo", "olmo2", "olmo3", "apertus", "opensci", "gpt_neox_sequential", "bitnet")
FORMATS = ("gptq", "awq", "compressed-tensors", "qtraj")


class Plans:
    """What `qtraj plan` says of entries of a sweep file, each alone."""

    def __init__(self, program, sweep, folder):
        self.command = [program, "plan", sweep, "--json", "--set", f"results={folder}/none.h5"]
        self.entries = re.findall(r"^  - (\{.*method: .*\})", sweep.read_text(encoding="utf-8"), re.MULTILINE)
        self.table = pathlib.Path(folder) / "one.csv"
        self.table.write_text("checkpoint\nonly\n", encoding="utf-8")
        self.not_for = {}

    def plan(self, entry, width, *settings):
        """None if it is refused."""
        sets = [word for one in (f"methods=[{entry}]", f"bits=[{width}]", *settings) for word in ("--set", one)]
        made = subprocess.run([*self.command, *sets], capture_output=True, text=True, check=False)
        return json.loads(made.stdout) if made.returncode == 0 else None

    def refused(self, entry, width, names=FAMILIES):
        """Those of the families that refuse it."""
        models = ", ".join(f"{{name: {name}, trajectory: {self.table}, path: {MODELS / name}}}" for name in names)
        ids = f"{{ids: '{MODELS}/olmo3/reference.safetensors:input_ids'}}"
        own = [f"models=[{models}]", f"evaluation=[{ids}]"]
        if self.plan(entry, width, *own, f"calibration={ids}") or self.plan(entry, width, *own, "calibration=null"):
            return []
        return list(names) if len(names) == 1 else [name for one in names for name in self.refused(entry, width, [one])]

    def columns(self, name, width):
        """MB that a visit takes beside the process itself, formats of packed export, and families that are refused."""
        entry = next(e for e in self.entries if re.search(rf"\bname: {name}[,}}]", e) or ("name:" not in e and re.search(rf"\bmethod: {name}[,}}]", e)))
        entry = re.sub(r"bits: \[.*?\]", f"bits: [{width}]", entry)
        if name not in self.not_for:
            self.not_for[name] = self.refused(entry, width)
        memory = self.plan(entry, width)["cost"]["models"][0]["memory"]
        scaled = entry[:-1] + ", scale_dtype: f16}"
        packed = [f for f in FORMATS if any(self.plan(e, width, f"export=[{{out: none, format: {f}}}]") for e in (scaled, entry))]
        return [f"{(memory['peak'] - memory['parts']['base']) / 1e6:.0f}", ",".join(packed) or "-", ",".join(self.not_for[name]) or "-"]


def number(value):
    return f"{value:.3f}" if abs(value) < 0.1 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def rows(cube, plans):
    """Of each width the cells, the smallest error at the last checkpoint first."""
    line = qtraj.families(cube)[0][0]
    own = cube.isel(dataset=0).sel(model=line.model)
    places = [line.places[k] for k, _ in moments(line)]
    for width in own.bits.values:
        cells = own.sel(bits=width)
        done = np.flatnonzero(np.isfinite(cells.loss_relative.values[places]).all(axis=0))
        for k in sorted(done, key=lambda k: cells.loss_relative.values[places[-1], k]):
            cell = cells.isel(quantizer=k)
            errors = [f"{number(100 * cell.loss_relative.values[at])}±{number(196 * cell.loss_relative_stderr.values[at])}" for at in places]
            seconds = np.nanmedian(cell.seconds.values[places])
            name = str(cell.quantizer.values)
            yield [name, str(width), f"{cell.bits_per_weight.values[places[-1]]:.2f}", *errors, number(seconds), *plans.columns(name, width)]


def main():
    results = pathlib.Path(sys.argv[2])
    cube = qtraj.open(results)
    heads = ["method", "bits", "stored", *(name for _, name in moments(qtraj.families(cube)[0][0])), "seconds", "MB", "packed", "not for"]
    with tempfile.TemporaryDirectory() as folder:
        plans = Plans(sys.argv[1], HERE / f"{results.stem}.yaml", folder)
        lines = ["|" + "|".join(row) + "|" for row in (heads, ["---"] * len(heads), *rows(cube, plans))]
    text = "\n".join(lines) + "\n"
    if len(sys.argv) < 4:
        print(text, end="")
        return
    page = pathlib.Path(sys.argv[3])
    old = page.read_text(encoding="utf-8")
    page.write_text(re.sub(rf"(?s)(<!-- table {results.stem} -->\n).*?(<!-- end -->)", lambda found: found[1] + text + found[2], old), encoding="utf-8")


if __name__ == "__main__":
    main()
