#!/usr/bin/env python3
"""messages.py FOLDER [--long] [--case NAME] [--who WHO] [--what WHAT] [--every S] [--first F] [--part K/N] [--jobs J] [--verbose]

Runs the sweep FOLDER/sweep.yaml with one fault each (message_fault.c, in $MESSAGE_FAULT): a rank is killed, stopped, hangs
or is killed in the middle of sending, at its n-th message. --long: every n of every rank (or one of S); otherwise a sample. A run may end
with code 3 or 4, then it is started again; it may not be there after two minutes, leave a process behind, or end with
another cube than an undisturbed run.
"""

import argparse
import concurrent.futures
import contextlib
import glob
import io
import os
import shutil
import signal
import subprocess
import sys
import time

import compare_cubes
import h5py

LIMIT = 120  # seconds of one start
STARTS = 4

# Of each case: ranks, arguments of launch, and whether rank 1 dies besides, as it sends its first result, and is replaced.
ONE = ["--only", "checkpoint=v001"]
CASES = {
    "single": (3, [], False),
    "group": (4, ["--set", "run.ranks_per_group=3", *ONE], False),
    "new": (2, ONE, True),
    "news": (3, ["--set", "run.ranks_per_group=2", *ONE], True),
}
RESULT = 1000  # bytes: a result has more, and other messages of a worker fewer
WHATS = ["kill", "tear", "stop", "hang"]
# Rank, what, and at which part of its messages (0: its first result): a few of each sort.
SAMPLE = {
    "single": [("1", "tear", 0), ("2", "stop", 0.6), ("0", "kill", 0.7), ("0", "hang", 0.6)],
    "group": [("2", "kill", 0.7)],
    "new": [("new0", "kill", 0.5)],
    "news": [],
}


def ours(folder):
    """The processes of a run with this folder of faults."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        with contextlib.suppress(OSError), open(path, "rb") as f:
            if f"MESSAGES={folder}".encode() in f.read().split(b"\0"):
                found.append(int(path.split("/")[2]))
    return found


def start(case, folder):
    """Runs the sweep once. Returns the exit code; None: it hangs."""
    ranks, more, _ = CASES[case]
    work = os.path.dirname(os.path.dirname(folder))
    command = [os.environ["QTRAJ"], "launch", "-n", str(ranks), f"{work}/sweep.yaml", "--set", f"results={folder}/out.h5", *more]
    environment = os.environ | {
        "LD_PRELOAD": os.environ["MESSAGE_FAULT"],
        "MESSAGES": folder,
        "MESSAGES_RANKS": str(ranks),
        "QTRAJ_PATIENCE": os.environ.get("QTRAJ_PATIENCE", "6"),
        "QTRAJ_MEET": os.environ.get("QTRAJ_MEET", "20"),  # on a busy machine ranks need longer to connect
    }
    with open(f"{folder}/err", "ab") as err:
        run = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        try:
            code = run.wait(LIMIT)
        except subprocess.TimeoutExpired:
            code = None
    end = time.monotonic() + 30
    while code is not None and ours(folder) and time.monotonic() < end:
        time.sleep(0.1)
    left = ours(folder)
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    run.wait()
    return None if left else code


def differences(a, b):
    with h5py.File(a, "r") as x, h5py.File(b, "r") as y:
        return list(compare_cubes.compare(x, y, set(), 0))


def first_result(calls):
    """The number of the call that sends the first result (or its first piece)."""
    return next(n for n, call in enumerate(calls, 1) if call[0] == "Send" and int(call[1]) > RESULT)


def calls_of(folder):
    """Of each rank: its calls, as [name, size]."""
    out = {}
    for path in glob.glob(f"{folder}/calls.*"):
        with open(path) as f:
            out[path.rsplit(".", 1)[1]] = [line.split() for line in f]
    return out


def trial(case, work, besides, who, n, what):
    """One run with a fault. Returns (struck, starts, problem or None, seconds)."""
    folder = f"{work}/{case}/{who}.{n}.{what}"
    os.makedirs(folder)
    for fault in [f"{who}.{n}.{what}", *besides]:
        open(f"{folder}/{fault}", "w").close()
    began = time.monotonic()
    for starts in range(1, STARTS + 1):
        code = start(case, folder)
        if code not in (3, 4):
            break
    struck = not os.path.exists(f"{folder}/{who}.{n}.{what}")
    if code is None:
        problem = f"start {starts} hangs, or leaves processes"
    elif code != 0:
        problem = f"start {starts} ends with {code}"
    else:
        problem = "\n".join(differences(f"{work}/{case}/whole/out.h5", f"{folder}/out.h5")[:5]) or None
    if problem:
        with open(f"{folder}/err", errors="replace") as err:
            problem += "\n" + "".join(err.readlines()[-15:])
    else:
        shutil.rmtree(folder)
    return struck, starts, problem, time.monotonic() - began


def undisturbed(case, work, name, besides):
    """Runs the sweep with no fault but those besides. Returns the calls of each rank."""
    folder = f"{work}/{case}/{name}"
    os.makedirs(folder)
    for fault in besides:
        open(f"{folder}/{fault}", "w").close()
    if start(case, folder) != 0:
        with open(f"{folder}/err", errors="replace") as err:
            sys.exit(f"{case}: the run without a fault fails: {err.read()}")
    return calls_of(folder)


def faults(case, work, given):
    """(case, work, faults besides, rank, number, what) of each trial."""
    calls = undisturbed(case, work, "whole", [])
    besides = []
    if CASES[case][2]:
        besides = [f"1.{first_result(calls['1'])}.kill"]
        calls = {who: c for who, c in undisturbed(case, work, "besides", besides).items() if who.startswith("new")}
    print(f"{case}: messages of each rank: { {who: len(c) for who, c in sorted(calls.items())} }", flush=True)
    if given.long:
        chosen = [(who, n, what) for who in sorted(calls) for n in range(given.first, len(calls[who]) + 1) for what in WHATS]
        chosen = [(who, n, what) for who, n, what in chosen if (n + WHATS.index(what)) % given.every == 0]
    else:
        chosen = [(who, round(at * len(calls[who])) or first_result(calls[who]), what) for who, what, at in SAMPLE[case]]
    return [(case, work, besides, *one) for one in chosen]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--who", help="only this rank")
    parser.add_argument("--what", choices=WHATS)
    parser.add_argument("--every", type=int, default=1, help="of the messages of each rank, one of so many")
    parser.add_argument("--first", type=int, default=1, help="of each rank's messages")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    chosen = []
    for case in [given.case] if given.case else [c for c in CASES if given.long or SAMPLE[c]]:
        chosen += faults(case, given.folder, given)
    chosen = [f for f in chosen if given.what in (None, f[-1]) and given.who in (None, f[-3])][part - 1 :: parts]
    results = []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        tasks = {pool.submit(trial, *f): f for f in chosen}
        for task in concurrent.futures.as_completed(tasks):
            case, _, _, who, n, what = tasks[task]
            results.append(task.result())
            struck, starts, problem, seconds = results[-1]
            if problem or given.verbose:
                print(f"{case} {who} {n} {what}: struck {struck}, {starts} starts, {seconds:.1f} s: {problem or 'fine'}", flush=True)
    bad = sum(r[2] is not None for r in results)
    struck = sum(r[0] for r in results)
    again = sum(r[1] > 1 for r in results)
    print(f"{len(results)} runs, {struck} struck, {again} started again by hand, {bad} bad")
    sys.exit(1 if bad or (not given.long and struck < len(results)) else 0)


if __name__ == "__main__":
    main()
