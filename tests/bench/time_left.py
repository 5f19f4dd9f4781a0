#!/usr/bin/env python3
"""How true the time left of a run's progress lines is, at 10, 25, 50 and 75 % of four runs on the quickstart's checkpoints:
the quickstart itself, with surfaces, with curvature dominating, and two models of unlike size.

    time_left.py build/release/qtraj [--ranks 3] [--size 1] [--folder DIR] [quickstart|surfaces|curvature|unlike ...]

--size 0.2 makes all but the quickstart shorter. Needs the Debian package debian-faq, and numpy for the larger model. Other
load on the machine changes the truth while it is measured. A line counts as true within 30 % or 10 s of what was really left.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "configs/quickstart"
TEXT = "/usr/share/doc/debian/FAQ/debian-faq.en.txt.gz"
SHARES = (0.10, 0.25, 0.50, 0.75)


def model(rows, folder):
    """The sweep file's model on these rows of the quickstart's trajectory (its first line is the header)."""
    lines = (QUICKSTART / "trajectory.csv").read_text().splitlines()
    table = folder / f"rows-{rows}.csv"
    table.write_text("\n".join(lines[:1] + lines[1:1 + rows]) + "\n")
    return (f"{{name: quickstart, trajectory: {table}, path: '{QUICKSTART}/trajectory/{{checkpoint}}', "
            f"tokenizer: {QUICKSTART}/trajectory/tokenizer.json}}")


def larger(folder):
    """A random model eight times as wide, on the same tokenizer: two checkpoints."""
    config = (QUICKSTART / "trajectory").glob("*/config.json")
    vocab = re.search(r'"vocab_size": *(\d+)', next(config).read_text()).group(1)
    for step in (1, 2):
        subprocess.run([sys.executable, ROOT / "tests/bench/make_checkpoint.py", QTRAJ, folder / f"large/step{step}",
                        "--family", "olmo2", "--hidden", "512", "--layers", "6", "--heads", "8", "--intermediate", "1024",
                        "--vocab", vocab], check=True, stdout=subprocess.DEVNULL)
    table = folder / "large.csv"
    table.write_text("checkpoint,step,tokens,learning_rate\nstep1,1,1,0.1\nstep2,2,2,0.1\n")
    return f"{{name: large, trajectory: {table}, path: '{folder}/large/{{checkpoint}}', tokenizer: {QUICKSTART}/trajectory/tokenizer.json}}"


def sweep(name, models, folder, bits="[2, 3, 4, 8]", evaluation=200, extra=""):
    text = f"""name: {name}
results: {folder}/{name}.h5
models: [{", ".join(models)}]
bits: {bits}
methods: [{{method: rtn, group_size: 64}}, {{method: gptq, group_size: 64}}]
calibration: {{text: {TEXT}, layout: packed, length: 256, samples: 64}}
evaluation: [{{name: faq, text: {TEXT}, layout: packed, length: 256, skip: 64, samples: {evaluation}}}]
run: {{threads: 1}}
{extra}"""
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return [path]


def runs(folder, size):
    def some(n):
        return max(1, round(n * size))

    return {
        "quickstart": lambda: [QUICKSTART / "quickstart.yaml", "--set", f"results={folder}/quickstart.h5"],
        "surfaces": lambda: sweep("surfaces", [model(max(3, some(4)), folder)], folder, evaluation=some(200), extra="surfaces:\n"
                                  "  - {name: plane, plane: trajectory, columns: 7, rows: 7}\n"
                                  "  - {name: random, plane: random, columns: 5, rows: 5, radius: 0.5, "
                                  f"samples: {some(100)}}}\n"),
        "curvature": lambda: sweep("curvature", [model(6, folder)], folder, bits="[4]", evaluation=some(40), extra="curvature: "
                                   "{sharpness: lanczos, products: 30, trace: 16, second_order: total, "
                                   f"sequences: {some(8)}}}\n"),
        "unlike": lambda: sweep("unlike", [model(some(8), folder), larger(folder)], folder, evaluation=some(60)),
    }


SPENT = re.compile(r"(?:(\d+)d )?(?:(\d+)h ?)?(?:(\d+)m ?)?(?:(\d+)s)?$")


def seconds(text):
    d, h, m, s = (int(x or 0) for x in SPENT.match(text).groups())
    return ((d * 24 + h) * 60 + m) * 60 + s


def measure(arguments, ranks):
    """Seconds that the run took, [(when, left), ...] of its lines, and the longest silence."""
    command = [QTRAJ, "run", *map(str, arguments)]
    if os.geteuid() == 0:  # mpirun refuses root otherwise
        os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if ranks > 1:
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", *command]
    lines, start = [], time.time()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        silent, last = 0, start
        for line in run.stderr:
            now = time.time()
            silent, last = max(silent, now - last), now
            found = re.search(r" spent, (.*?) left", line)
            if found:
                lines.append((now - start, seconds(found.group(1))))
    if run.returncode:
        sys.exit(f"{command}: exit code {run.returncode}")
    return time.time() - start, lines, silent


def main():
    global QTRAJ
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("qtraj")
    parser.add_argument("which", nargs="*")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--size", type=float, default=1)
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    QTRAJ = os.path.abspath(arguments.qtraj)
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.folder or scratch)
        all_runs = runs(folder, arguments.size)
        print(f"{'run':12} {'took':>7} {'silent':>7}   left at 10, 25, 50, 75 %: said (true)")
        for name in arguments.which or all_runs:
            took, lines, silent = measure(all_runs[name](), arguments.ranks)
            cells = []
            for share in SHARES:
                when, left = min(lines, key=lambda l: abs(l[0] - share * took))
                truth = took - when
                true = abs(left - truth) <= max(0.3 * truth, 10)
                bad += not true
                cells.append(f"{left:.0f} ({truth:.0f}){'' if true else ' !'}")
            print(f"{name:12} {took:6.0f}s {silent:6.0f}s   " + ", ".join(cells), flush=True)
    print(f"{bad} beyond 30 % and 10 s")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
