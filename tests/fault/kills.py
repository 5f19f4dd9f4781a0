#!/usr/bin/env python3
"""Processes of `qtraj launch` are killed or stopped at random moments, from the first millisecond of a run on.

Each round starts a staged sweep of two checkpoints on three ranks, and after a random time sends SIGKILL or SIGSTOP to one random
process: launch, mpirun, rank 0, another rank, or what fetches checkpoints. A stopped launch is continued after three seconds. The
round must end within --limit, leave no process, end with 0 if nothing was killed, and the same command started again until it ends with 0
must give the cube of an undisturbed run. Ranks count as lost after as many seconds as the undisturbed run took, four at least.

kills.py ROUNDS [--jobs N] [--seed S] [--default-patience] [--limit SECONDS] [--verbose], in an empty folder; $QTRAJ, $SOURCE
"""
import argparse
import collections
import concurrent.futures
import os
import random
import shutil
import signal
import subprocess
import sys
import time

SOURCE, QTRAJ = os.environ["SOURCE"], os.environ["QTRAJ"]
TRAJECTORY = f"{SOURCE}/configs/quickstart/trajectory"
STARTS = 12  # of the same command in a round


def write_sweep():
    with open(f"{SOURCE}/configs/quickstart/trajectory.csv") as f:
        rows = f.read().splitlines()
    with open("trajectory.csv", "w") as f:
        f.write("\n".join(rows[:3]) + "\n")
    shutil.copy(f"{TRAJECTORY}/tokenizer.json", ".")
    shutil.copy(f"{TRAJECTORY}/step000100/config.json", ".")
    with open("tokenizer.json", encoding="utf-8") as f, open("text.txt", "w", encoding="utf-8") as to:
        to.write(f.read(60000))
    with open("sweep.yaml", "w") as f:
        f.write(f"""name: kills
results: whole.h5
models:
  - {{name: m, trajectory: trajectory.csv, path: "${{KILLS_STORE}}/{{checkpoint}}", tokenizer: tokenizer.json,
     stage: [cp, -r, "{TRAJECTORY}/{{revision}}/.", "{{path}}"]}}
bits: [4]
methods: [{{method: rtn, group_size: 64}}, {{method: gptq, group_size: 64}}]
calibration: {{text: text.txt, length: 64, samples: 4}}
evaluation: [{{name: text, text: text.txt, length: 64, skip: 4, samples: 4}}]
run: {{threads: 1, stage_pause: 0.1}}
""")


def environment(name, seconds=None):
    """seconds: the undisturbed run's; None: the program's own limits. Each round has a TMPDIR of its own: an mpirun that ends removes
    Open MPI's folder there, in which another may be making its own."""
    tmp = f"{os.getcwd()}/{name}.tmp"
    os.mkdir(tmp)
    env = dict(os.environ, KILLS_ROUND=f"{os.getpid()}-{name}", KILLS_STORE=f"{os.getcwd()}/{name}.store", TMPDIR=tmp,
               OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_btl_vader_backing_directory=os.getcwd(), OMPI_MCA_btl_vader_single_copy_mechanism="none")
    if seconds is not None:
        patience = max(4, seconds)
        env.update(QTRAJ_PATIENCE=f"{patience:.1f}", QTRAJ_MEET=f"{3 * patience:.1f}", QTRAJ_LEASE=f"{patience:.1f}")
    return env


def start(name, env):
    log = open(f"{name}.log", "ab")
    return subprocess.Popen([QTRAJ, "launch", "-n", "3", "sweep.yaml", "--set", f"results={name}.h5"], env=env, stdin=subprocess.DEVNULL,
                            stdout=log, stderr=log, start_new_session=True)


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def role_of(pid, launch):
    """None: gone."""
    command = read(f"/proc/{pid}/cmdline").split(b"\0")
    if pid == launch:
        return "launch"
    if b"mpirun" in os.path.basename(command[0]):
        return "mpirun"
    if b"run" not in command[1:2]:
        return "fetch" if command[0] else None
    env = read(f"/proc/{pid}/environ").split(b"\0")
    ranks = [e.split(b"=")[1] for e in env if e.startswith(b"OMPI_COMM_WORLD_RANK=")]
    parent = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if parent and b"mpirun" not in read(f"/proc/{int(parent[1])}/comm"):
        return "fetch"
    return "rank 0" if ranks == [b"0"] else "rank" if ranks else "fetch"


def ours(env):
    """Processes of the round that are no zombies."""
    mark = b"KILLS_ROUND=" + env["KILLS_ROUND"].encode() + b"\0"
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if mark in read(f"/proc/{pid}/environ"):
            found.append(int(pid))
    return found


def strike(env, run, draw, delay):
    """Returns what was done; None: everything had ended."""
    time.sleep(delay)
    roles = collections.defaultdict(list)
    for pid in ours(env):
        role = role_of(pid, run.pid)
        if role:
            roles[role].append(pid)
    if not roles or run.poll() is not None:
        return None
    role = draw.choice(sorted(roles))
    pid, what = draw.choice(roles[role]), draw.choice([signal.SIGKILL, signal.SIGSTOP])
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return None
    if role == "launch" and what == signal.SIGSTOP:
        time.sleep(3)
        os.kill(pid, signal.SIGCONT)
    return role, what.name


def wait_all(env, seconds):
    """Whether every process of the round has ended."""
    end = time.monotonic() + seconds
    while ours(env):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def finish(name, env, options):
    """Starts the command again until it ends with 0. Returns what is wrong, or None."""
    for _ in range(STARTS):
        run = start(name, env)
        try:
            code = run.wait(options.limit)
        except subprocess.TimeoutExpired:
            return "the next start hangs"
        if code == 0:
            break
        if code not in (2, 3):
            return f"the next start ended with {code}"
        time.sleep(1)
    else:
        return f"not done after {STARTS} starts"
    compared = subprocess.run([sys.executable, f"{SOURCE}/tests/tools/compare_cubes.py", "whole.h5", f"{name}.h5"], capture_output=True, text=True)
    lines = [w for w in compared.stdout.splitlines() if not w.startswith("provenance/config:") and "differences" not in w]
    return None if compared.returncode == 0 or not lines else "another cube: " + "; ".join(lines[:3])


def play(number, seconds, options):
    draw = random.Random(options.seed * 100003 + number)
    name = f"r{number}"
    env = environment(name, None if options.default_patience else seconds)
    # half of them in the first moments
    delay = 10 ** draw.uniform(-3, 0) * seconds / 2 if draw.random() < 0.5 else draw.uniform(0, seconds)
    begun = time.monotonic()
    run = start(name, env)
    struck, wrong, code = strike(env, run, draw, delay), None, None
    try:
        code = run.wait(options.limit)
    except subprocess.TimeoutExpired:
        wrong = "it hangs"
    if not wrong and not wait_all(env, options.limit):
        wrong = "processes are left"
    if wrong:
        wrong += ": " + " ".join(f"{p}:{role_of(p, run.pid)}:{read(f'/proc/{p}/stat').rpartition(b')')[2][1:2].decode()}" for p in ours(env))
    if not wrong and code not in ((0, 2, 3, -9) if struck else (0,)):
        wrong = f"exit code {code}"
    took = time.monotonic() - begun
    wrong = wrong or finish(name, env, options)
    if wrong:
        wrong += "".join(f"\n--- {name}{end} ---\n" + read(name + end).decode(errors="replace")[-4000:] for end in (".journal", ".log"))
        for pid in ours(env):
            os.kill(pid, signal.SIGKILL)
    else:
        for end in (".store", ".tmp"):
            shutil.rmtree(name + end, ignore_errors=True)
        for end in (".h5", ".journal", ".log"):
            if os.path.exists(name + end):
                os.unlink(name + end)
    return number, struck, delay, code, took, wrong


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("rounds", type=int)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--limit", type=float, default=0)
    p.add_argument("--default-patience", action="store_true")
    p.add_argument("--verbose", action="store_true")
    options = p.parse_args()
    write_sweep()
    env = environment("whole")
    run = start("whole", env)
    begun = time.monotonic()
    if run.wait(options.limit or 600) != 0:
        sys.exit("undisturbed: " + read("whole.log").decode())
    seconds = time.monotonic() - begun
    options.limit = options.limit or (600 if options.default_patience else max(120, 30 * seconds))
    counts, bad = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for number, struck, delay, code, took, wrong in pool.map(lambda i: play(i, seconds, options), range(options.rounds)):
            counts[struck] += 1
            bad += bool(wrong)
            if wrong or options.verbose:
                print(f"round {number}: {struck} after {delay:.3f} s: code {code} after {took:.1f} s{': FAIL: ' + wrong if wrong else ''}", flush=True)
    for struck, n in sorted(counts.items(), key=str):
        print(f"{n:5} {' '.join(struck) if struck else 'too late'}")
    print(f"{options.rounds} rounds, {bad} failed; the undisturbed run took {seconds:.1f} s")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
