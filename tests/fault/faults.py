#!/usr/bin/env python3
"""faults.py GROUP ... [--long [--part I/K]] [--verbose]: injects one fault after the other into qtraj, by tests/fault/fault.c.

Groups: kill, power, io, interrupt: file operations of a sweep, alone and on three ranks; memory: allocations of every
command. For n = 1, 2, 3, ... the n-th operation meets the fault, until a run meets none; the short form leaves most n out.

After each fault the sweep is resumed without faults. Then: the exit codes were those of the design, nothing hung, no
process dumped core; what had been acknowledged (the journal as of its last fdatasync) is the beginning of the journal,
no cell was computed and stored twice, the cube equals that of an undisturbed run bit for bit, a cube that stood there
before the resume could be read, and no other file is left.

Takes the binary from $QTRAJ, the sources from $SOURCE, the library from $FAULT_LIBRARY; works in the current folder.
"""

import argparse
import collections
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys

import h5py

sys.path.insert(0, str(pathlib.Path(os.environ["SOURCE"], "tests/tools")))
import compare_cubes  # noqa: E402

QTRAJ = os.environ["QTRAJ"]
LIBRARY = os.environ["FAULT_LIBRARY"]
WORK = pathlib.Path.cwd()
SECONDS = 120  # of one command; more is a hang

# Operations, what happens to them, whether it goes on happening, the exit codes that a run may have, in the short form
# the number of faults alone and on rank 0 and rank 1 of three.
File = collections.namedtuple("File", "group calls action stays codes alone three")
FILES = "open,read,write,sync,rename,truncate"
FILE_FAULTS = [
    File("kill", FILES, "kill", False, {-9}, 5, 2),
    File("power", "write,sync,rename,truncate", "power", False, {-9}, 5, 1),
    File("io", "read", "EIO", False, {0}, 2, 0),
    File("io", "open", "EIO", False, {0, 1, 2, 3}, 2, 0),
    File("io", "write,sync,rename,truncate", "EIO", False, {0, 2, 3}, 3, 1),
    File("io", "read", "EIO", True, {0, 1, 2, 3}, 2, 0),
    File("io", "write,sync,rename,truncate", "ENOSPC", True, {0, 3}, 3, 0),
    File("interrupt", "open,read,write,sync", "EINTR", False, {0}, 2, 0),
    File("interrupt", "sync,truncate", "EINTR", False, {0}, 2, 0),
    File("interrupt", "read,write", "short", False, {0}, 2, 0),
]

# Commands that meet failing allocations; the number of them in the short form.
STEP = "step000100"
DATA = ["--text", "text.txt", "--length", "16", "--tokenizer", "tokenizer.json"]
COMMANDS = {
    "run": (["run", "sweep.yaml"], 6),
    "plan": (["plan", "sweep.yaml"], 4),
    "status": (["status", "good.h5"], 3),
    "show": (["show", "good.h5"], 3),
    "rebuild": (["rebuild", "again.h5", "good.journal"], 4),
    "inspect": (["inspect", STEP], 2),
    "eval": (["eval", STEP, *DATA, "--samples", "2"], 3),
    "quantize": (["quantize", STEP, "--method", "rtn", "--bits", "3", "--evaluation-text", "text.txt",
                  "--evaluation-length", "16", "--evaluation-samples", "2", "--tokenizer", "tokenizer.json"], 3),
    "curvature": (["curvature", STEP, *DATA, "--samples", "1", "--sharpness", "power", "--products", "1"], 3),
    "tokenize": (["tokenize", "tokenizer.json"], 3),
    "doctor": (["doctor", "--scratch", "scratch"], 2),
    "options": (["options"], 2),
}
# Without numbers that differ from run to run on stdout.
STABLE = {"inspect", "tokenize", "options", "eval", "show"}

SWEEP = """name: fault
results: r.h5
models: [{name: small, trajectory: trajectory.csv, path: "{checkpoint}", tokenizer: tokenizer.json}]
bits: [3, 4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: own, text: text.txt, length: 16, samples: 2}]
"""

failures = []


class Outcome:
    """One command: its exit code (None: a hang) and output; the fault that it met, or None."""

    def __init__(self, arguments, ranks=1, fault=None):
        report, state = WORK / "report", WORK / "state"
        for path in (report, WORK / "state.synced"):
            path.unlink(missing_ok=True)
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir()
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        command = [QTRAJ, *arguments]
        if fault:
            faults = {"FAULT_FOLDER": WORK, "FAULT_REPORT": report, "FAULT_STATE": state, "LD_PRELOAD": LIBRARY, **fault}
            environment.update({key: str(value) for key, value in faults.items()})
        if ranks > 1:
            preload = environment.pop("LD_PRELOAD", None)
            command = ["mpirun", "-n", str(ranks), *(["-x", f"LD_PRELOAD={preload}"] if preload else []), *command]
        else:
            environment.update(OMPI_MCA_btl="self", OMPI_MCA_ess_singleton_isolated="1")  # quicker
        try:
            done = subprocess.run(command, env=environment, cwd=WORK, timeout=SECONDS, capture_output=True,
                                  input=b"some text\n", check=False)
            self.code, self.out, self.err = done.returncode, done.stdout, done.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired as hang:
            self.code, self.out, self.err = None, hang.stdout, (hang.stderr or b"").decode(errors="replace")
        self.met = report.read_text().split("\n")[0] if report.exists() else None


def fail(what, outcome):
    failures.append(what)
    print(f"FAIL: {what}: exit code {outcome.code}\n{outcome.err[-1500:]}", flush=True)


def prepare():
    quickstart = pathlib.Path(os.environ["SOURCE"], "configs/quickstart")
    shutil.copytree(quickstart / "trajectory" / STEP, WORK / STEP)
    shutil.copy(quickstart / "trajectory/tokenizer.json", WORK)
    lines = (quickstart / "trajectory.csv").read_text().splitlines()
    (WORK / "trajectory.csv").write_text("\n".join(lines[:2]) + "\n")
    (WORK / "text.txt").write_text("A text of a few words, which is long enough for two sequences of sixteen tokens. " * 3)
    (WORK / "sweep.yaml").write_text(SWEEP)
    (WORK / "scratch").mkdir()
    (WORK / "out").mkdir()
    undisturbed = Outcome(["run", "sweep.yaml", "--set", "results=good.h5"])
    if undisturbed.code != 0:
        fail("the undisturbed run", undisturbed)
        sys.exit(1)


def remove_results():
    for path in WORK.iterdir():
        if path.name.startswith("r."):
            path.unlink()


def cells_of(journal):
    """How often each cell is stored as done."""
    found = collections.Counter()
    for line in journal.read_bytes().splitlines():
        record = json.loads(line.split(b" ", 1)[1])
        if record.get("type") == "cell" and record.get("status") == "done":
            found[record["key"]] += 1
    return found


def differences(a, b):
    with h5py.File(a) as x, h5py.File(b) as y:
        return list(compare_cubes.compare(x, y, set(), 0))


def check_resumed(what, first, ranks, equal):
    """Resumes the sweep and checks everything. `equal`: the first run has to have done all of it."""
    cube, journal, synced = WORK / "r.h5", WORK / "r.journal", WORK / "state.synced"
    acknowledged = synced.read_bytes() if synced.exists() else b""
    if cube.exists():
        try:
            h5py.File(cube).close()
        except OSError as why:
            fail(f"{what}: a half-written cube: {why}", first)
    resumed = Outcome(["run", "sweep.yaml", *(["--retry", "failed"] if first.code == 1 else [])], ranks)
    if resumed.code != 0:
        fail(f"{what}: resumed", resumed)
        return
    if equal and "nothing to do" not in resumed.err:
        fail(f"{what}: not all was done at once", resumed)
    if not journal.read_bytes().startswith(acknowledged):
        fail(f"{what}: acknowledged records are lost", resumed)
    twice = [key for key, times in cells_of(journal).items() if times > 1]
    if twice:
        fail(f"{what}: stored twice: {twice}", resumed)
    different = differences(cube, WORK / "good.h5")
    if different:
        fail(f"{what}: the resumed cube differs: {different[:3]}", resumed)
    left = {path.name for path in WORK.iterdir()} - KNOWN
    if left:
        fail(f"{what}: left behind: {sorted(left)}", resumed)


def numbers(total, wanted, long):
    """All numbers from 1 (of a part I/K every K-th from I), or about as many as wanted, the first and the last among them."""
    if long:
        return range(options.part[0], total + 2, options.part[1])
    if total <= wanted:
        return range(1, total + 2)
    return sorted({1 + i * (total - 1) // max(wanted - 1, 1) for i in range(wanted)})


def count(arguments, ranks, fault):
    counted = Outcome(arguments, ranks, {**fault, "FAULT_AT": 0})
    return int(counted.met.split()[0]) if counted.met else 0


@functools.cache
def operations(calls, ranks, rank):
    """How many of these operations the sweep has on that rank."""
    remove_results()
    return count(["run", "sweep.yaml"], ranks, {"FAULT_CALLS": calls, "FAULT_DO": "kill", "FAULT_RANK": rank})


def try_file(fault, ranks, rank, n):
    orders = {"FAULT_CALLS": fault.calls, "FAULT_DO": fault.action, "FAULT_AT": n, "FAULT_SEED": n * 7 + ranks,
              "FAULT_STAYS": int(fault.stays), "FAULT_RANK": rank}
    remove_results()
    first = Outcome(["run", "sweep.yaml"], ranks, orders)
    what = f"{fault.action}{' from then on' if fault.stays else ''}, {ranks} ranks, rank {rank}, {first.met}"
    if first.met is None:
        return False
    codes = fault.codes
    if ranks > 1:
        # mpirun gives the code of the rank that it sees end first: the killed one, or another that it has stopped then
        codes = {137, 143, 3} if -9 in codes else codes
    journal = WORK / "r.journal"
    begun = journal.exists() and b'"type":"cell"' in journal.read_bytes()
    if first.code not in codes or (first.code == 2 and begun):
        fail(what, first)
    check_resumed(what, first, ranks, codes == {0})
    return True


def try_files(group, long, verbose):
    for fault in (f for f in FILE_FAULTS if f.group == group):
        for ranks, rank, wanted in ((1, 0, fault.alone), (3, 0, fault.three), (3, 1, fault.three)):
            if not long and wanted == 0:
                continue
            total = operations(fault.calls, ranks, rank)
            tried = sum(try_file(fault, ranks, rank, n) for n in numbers(total, wanted, long))
            print(f"{group}: {fault.action}{' from then on' if fault.stays else ''} at {fault.calls}, {ranks} ranks, rank "
                  f"{rank}: {tried} of {total}", flush=True)


def try_memory(long, verbose):
    for name, (arguments, wanted) in COMMANDS.items():
        remove_results()
        fault = {"FAULT_CALLS": "alloc", "FAULT_DO": "ENOMEM"}
        undisturbed = Outcome(arguments)
        remove_results()
        total = count(arguments, 1, fault)
        tried = 0
        for n in numbers(total, wanted, long):
            remove_results()
            for path in WORK.glob("again.*"):
                path.unlink()
            first = Outcome(arguments, 1, {**fault, "FAULT_AT": n})
            what = f"{name}, {first.met}"
            if first.met is None:
                continue
            tried += 1
            if verbose:
                print(what, first.code, first.err.strip()[-150:].replace("\n", " | "), flush=True)
            if first.code not in {0, 1, 4} or (first.code == 1 and name not in ("run", "doctor")):
                fail(what, first)
            elif first.code == 4 and "out of memory" not in first.err:
                fail(f"{what}: not called out of memory", first)
            elif first.code == 0 and name in STABLE and first.out != undisturbed.out:
                fail(f"{what}: another output", first)
            if name == "run":
                check_resumed(what, first, 1, False)
        print(f"memory: {name}: {tried} of {total} allocations, exit code {undisturbed.code} without faults", flush=True)


def part(text):
    index, parts = (int(number) for number in text.split("/"))
    if not 1 <= index <= parts:
        raise ValueError
    return index, parts


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("group", nargs="+", choices=["kill", "power", "io", "interrupt", "memory"])
parser.add_argument("--long", action="store_true", help="every n")
parser.add_argument("--part", type=part, default=(1, 1), metavar="I/K", help="with --long, every K-th n from the I-th")
parser.add_argument("--verbose", action="store_true", help="a line for each fault")
options = parser.parse_args()
prepare()
KNOWN = {path.name for path in WORK.iterdir()} | {"r.h5", "r.journal", "report", "state", "state.synced"}
for one in options.group:
    if one == "memory":
        try_memory(options.long, options.verbose)
    else:
        try_files(one, options.long, options.verbose)
print(f"{len(failures)} failed" if failures else "all good")
sys.exit(1 if failures else 0)
