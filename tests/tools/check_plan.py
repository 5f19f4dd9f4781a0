"""Checks what `qtraj plan SWEEP --json` says against the sweep file's comment and the table of shapes.

usage: check_plan.py SWEEP SHAPES.csv <plan.json"""

import csv
import json
import re
import sys


def main(sweep, shapes):
    with open(sweep, encoding="utf-8") as file:
        text = file.read()
    stated = re.search(r"^# ([0-9]+) checkpoints(?: and ([0-9]+) averages?)? at ([0-9]+) bit-widths: ([0-9]+) cells", text, re.MULTILINE)
    if not stated:
        sys.exit(f"{sweep}: does not state checkpoints, bit-widths and cells")
    checkpoints, averages, widths, cells = (int(number or 0) for number in stated.groups())
    plan = json.load(sys.stdin)
    with open(shapes, encoding="utf-8", newline="") as file:
        counted = {row["folder"]: int(row["parameters"]) for row in csv.DictReader(line for line in file if not line.startswith("#"))}
    folders = re.findall(r'path: "\$\{CHECKPOINTS\}/([^/]+)/\{checkpoint\}"', text)
    expected = [counted[folder] for folder in folders]
    found = [model["parameters"] for model in plan["cost"]["models"]]
    if plan["cells"] != cells or cells != (checkpoints + averages) * widths:
        sys.exit(f"{sweep}: states {checkpoints} checkpoints and {averages} averages at {widths} bit-widths, {cells} cells; the plan has {plan['cells']} cells")
    if found != expected:
        sys.exit(f"{sweep}: parameters {found}, expected {expected}")


if __name__ == "__main__":
    main(*sys.argv[1:])
