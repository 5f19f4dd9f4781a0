#!/usr/bin/env python3
"""Processor time and memory of the commands that read a long journal, made by bench_journal without running anything:

    long_sweep.py BUILD [--cells N] [--sequences N] [--layers N] [--limit SECONDS] [--memory MEGABYTES] [--writing MEGABYTES]
                  [--keep FOLDER]

BUILD has qtraj and bench_journal. --limit and --memory: exit code 1 if plan, status or show needs more; for rows of all numbers
(--csv, --json) only --memory holds, since they read and print every number. --writing: if what writes a cube needs
more.
"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

METHODS, BITS = 5, [2, 3, 4, 8]


def write_sweep(folder, cells):
    checkpoints = -(-cells // (METHODS * len(BITS)))
    (folder / "long.csv").write_text("checkpoint,step\n" + "".join(f"step{i},{i}\n" for i in range(checkpoints)))
    (folder / "long.txt").write_text("some text\n" * 100)
    methods = "".join(f"  - {{method: rtn, name: rtn{i}, group_size: {16 << i}}}\n" for i in range(METHODS))
    (folder / "long.yaml").write_text(f"""name: long
results: long.h5
models:
  - {{name: m, trajectory: long.csv, path: "none/{{checkpoint}}"}}
bits: {BITS}
methods:
{methods}evaluation:
  - {{name: e, text: long.txt, length: 64}}
""")


def measured(command, log):
    """Seconds of processor time, peak memory in bytes and exit code."""
    with open(log, "w") as out:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--cells", type=int, default=100000)
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--layers", type=int, default=7)
    parser.add_argument("--limit", type=float, help="seconds that plan, status and show may take")
    parser.add_argument("--memory", type=float, help="MB that they may take")
    parser.add_argument("--writing", type=float, help="MB that rebuild and run may take")
    parser.add_argument("--keep", type=pathlib.Path, help="folder to work in, kept afterwards")
    a = parser.parse_args()
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_sweep(folder, a.cells)
        sweep, journal, cube = folder / "long.yaml", folder / "long.journal", folder / "long.h5"
        qtraj = a.build / "qtraj"
        journal.unlink(missing_ok=True)
        reads, rows, writes = (a.limit, a.memory), (None, a.memory), (None, a.writing)
        commands = [
            ("plan of nothing done", [qtraj, "plan", sweep, "--rate", "100"], reads),
            ("bench_journal", [a.build / "bench_journal", sweep, a.sequences, a.layers], (None, None)),
            ("plan", [qtraj, "plan", sweep, "--rate", "100"], reads),
            ("plan --json", [qtraj, "plan", sweep, "--rate", "100", "--json"], reads),
            ("status", [qtraj, "status", journal], reads),
            ("show", [qtraj, "show", journal], reads),
            ("show --csv", [qtraj, "show", journal, "--csv"], rows),
            ("show --json", [qtraj, "show", journal, "--json"], rows),
            ("rebuild", [qtraj, "rebuild", cube, journal], writes),
            ("show of the cube", [qtraj, "show", cube], reads),
            ("run with nothing to do", [qtraj, "run", sweep], writes),
        ]
        bad = 0
        for name, command, (most_seconds, most_memory) in commands:
            seconds, memory, code = measured(command, folder / "log")
            over = (most_seconds and seconds > most_seconds) or (most_memory and memory > most_memory * 1e6)
            # the checkpoints have no weights: of nothing done, nothing can run
            wrong = code != (2 if name == "plan of nothing done" else 0)
            bad += bool(over or wrong)
            size = f", journal of {journal.stat().st_size / 1e6:.0f} MB" if name == "bench_journal" else ""
            print(f"{name:24} {seconds:7.2f} s {memory / 1e6:7.0f} MB{size}{'   too much' if over else ''}", flush=True)
            if wrong:
                print(f"exit code {code}: " + (folder / "log").read_text()[-500:], file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
