#!/usr/bin/env python3
"""inputs.py [--changes N] [--seed S] [--only WORD] [--verbose]: changes one input of a sweep at a random moment of a run.

Every kind of change in KINDS is tried in turn. The run waits at its n-th open or read of the input, or of any file
(tests/fault/fault.c), or is killed there, or has ended; then the input changes, and the run goes on. A second run follows. Then:

- Every finished record of the journal holds the numbers that an undisturbed sweep of one of the two versions of the input has
  for the same claim: its key, and the digests of weights, special tokens and text beside it. A claim has the same numbers in both.
- The second run ends with exit code 0, and the cube holds what an undisturbed sweep of the changed input has. If it finds weights
  that finished results were not made from, it ends with exit code 3, and a third run makes these.
- A failure of the first run says that an input was changed, and what to do.
- After a change that changes no number (a touch, a copy, another folder) nothing is computed twice.

Takes the binary from $QTRAJ, the sources from $SOURCE, the library from $FAULT_LIBRARY; works in the current folder.
"""

import argparse
import collections
import functools
import gzip
import hashlib
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import time

import h5py

sys.path.insert(0, str(pathlib.Path(os.environ["SOURCE"], "tests/tools")))
import compare_cubes  # noqa: E402

QTRAJ = os.environ["QTRAJ"]
LIBRARY = os.environ["FAULT_LIBRARY"]
SOURCE = pathlib.Path(os.environ["SOURCE"])
WORK = pathlib.Path.cwd()
WORLD, PRISTINE, REPORT = WORK / "world", WORK / "pristine", WORK / "report"
SECONDS = 900  # of one command, on a loaded machine too; more is a hang
RELATIVE = 1e-7  # with some kernels of the BLAS the last bits depend on what shares a visit

SWEEP = """name: inputs
results: ../r.h5
count_tokens: common
models:
  - name: small
    trajectory: trajectory.csv
    path: FOLDER/{checkpoint}
    tokenizer: tokenizer/tokenizer.json
    averages: [{name: mean, of: [step000100, step000300]}]
bits: [3]
methods: [{method: rtn, group_size: 64}, {method: gptq, group_size: 64}]
calibration: {text: data/calibration.jsonl.gz, field: text, length: 16, samples: 4, padding: counted, layout: document}
evaluation:
  - {name: packed, text: data/text.txt, length: 16, samples: 4, separator: eos}
  - {name: stored, ids: "data/ids.safetensors:ids"}
tasks: {names: piqa, data: data, shots: 0}
movement: rtn
curvature: {sharpness: power, products: 1, sequences: 2, data: {text: data/text.txt, length: 16}}
run: {threads: 1, ranks_per_group: 1, memory_per_rank: 8 GiB}
"""

# --- what can change ---


def edit_text(data, rng):
    """Another letter in a word."""
    at = rng.choice([i for i, byte in enumerate(data) if 97 <= byte <= 122])
    return data[:at] + bytes([97 + (data[at] - 97 + 1 + rng.randrange(25)) % 26]) + data[at + 1 :]


def edit_packed(data, rng):
    rows = gzip.decompress(data).splitlines()
    i = rng.randrange(len(rows))
    rows[i] = json.dumps({"text": edit_text(json.loads(rows[i])["text"].encode(), rng).decode()}).encode()
    return gzip.compress(b"\n".join(rows) + b"\n", mtime=0)


def edit_ids(data, rng):
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    at = begin + 4 * rng.randrange((len(data) - begin) // 4)
    return data[:at] + struct.pack("<I", (struct.unpack("<I", data[at : at + 4])[0] + 1) % 2048) + data[at + 4 :]


def edit_item(data, rng):
    rows = data.splitlines()
    i = rng.randrange(len(rows))
    item = json.loads(rows[i])
    item["label"] = 1 - item["label"]
    if rng.random() < 0.5:
        item["sol1"] = edit_text((item["sol1"] + "a").encode(), rng).decode()
    rows[i] = json.dumps(item).encode()
    return b"\n".join(rows) + b"\n"


def edit_tokenizer(data, rng):
    """Two tokens exchange their ids."""
    tokenizer = json.loads(data)
    vocab = tokenizer["model"]["vocab"]
    a, b = rng.sample([token for token in vocab if not token.startswith("<|")], 2)
    vocab[a], vocab[b] = vocab[b], vocab[a]
    return json.dumps(tokenizer).encode()


def edit_special(data, rng):
    vocab = json.loads((WORLD / "tokenizer/tokenizer.json").read_bytes())["model"]["vocab"]
    names = json.loads(data)
    token = names[rng.choice(["eos_token", "pad_token"])]
    other = rng.choice([word for word in vocab if word not in names.values()])
    return json.dumps({key: other if value == token else value for key, value in names.items()}).encode()


def edit_template(data, rng):
    return json.dumps({**json.loads(data), "chat_template": f"{rng.random()}"}).encode()


def edit_rate(data, rng):
    lines = data.decode().splitlines()
    i = 1 + rng.randrange(len(lines) - 1)
    cells = lines[i].split(",")
    cells[3] = f"{rng.random():.6f}"
    lines[i] = ",".join(cells)
    return ("\n".join(lines) + "\n").encode()


def edit_config(data, rng):
    config = json.loads(data)
    config["rms_norm_eps"] = 1e-6 * (1 + rng.random())
    return json.dumps(config).encode()


def edit_weights(data, rng):
    """Any byte of the tensors."""
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    at = begin + rng.randrange(len(data) - begin)
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(6))]) + data[at + 1 :]


def write(path, data, rng, whole=False):
    """In place, or (whole: always) as a new file of that name, which nobody can read half."""
    if not whole and rng.random() < 0.5:
        path.write_bytes(data)
        return
    new = path.with_name("new")
    new.write_bytes(data)
    new.rename(path)


def touch(rng):
    for path in files():
        os.utime(path)


def copy_all(rng):
    """Equal bytes over the old ones, never cut meanwhile (other ranks read on), or in new files."""
    for path in files():
        data = path.read_bytes()
        if rng.random() < 0.5:
            with path.open("r+b") as file:
                file.write(data)
        else:
            write(path, data, rng, whole=True)


def move_folder(rng):
    """The trajectory's folder gets another name, and so does its path in the sweep file."""
    old = next(WORLD.glob("run*"))
    new = f"run{rng.randrange(10**6)}"
    old.rename(WORLD / new)
    (WORLD / "sweep.yaml").write_text(SWEEP.replace("FOLDER", new))


# A kind of change: its name; the file, a pattern of which one is chosen; how its bytes change; whether numbers follow from it;
# whether it concerns weights. Or, without a file, what is done to all files, and whether a run may go on meanwhile.
Kind = collections.namedtuple("Kind", "name file edit numbers weights during", defaults=[True, False, True])
EVERY = {"config.json"}  # kinds that change all files of the pattern alike
KINDS = [
    Kind("text", "data/text.txt", edit_text),
    Kind("touch", None, touch, numbers=False),
    Kind("ids", "data/ids.safetensors", edit_ids),
    Kind("tokenizer", "tokenizer/tokenizer.json", edit_tokenizer),
    Kind("task", "data/piqa.jsonl", edit_item),
    Kind("calibration", "data/calibration.jsonl.gz", edit_packed),
    Kind("weights", "run*/*/model.safetensors", edit_weights, weights=True),
    Kind("special tokens", "tokenizer/tokenizer_config.json", edit_special),
    Kind("copy", None, copy_all, numbers=False),
    Kind("config.json", "run*/*/config.json", edit_config, weights=True),
    Kind("common tokenizer", "common/tokenizer.json", edit_tokenizer),
    Kind("rename", None, move_folder, numbers=False, during=False),
    Kind("trajectory.csv", "trajectory.csv", edit_rate, numbers=False),
    Kind("other settings of the tokenizer", "tokenizer/tokenizer_config.json", edit_template, numbers=False),
]


def choose(kind, rng):
    """The files that change."""
    paths = sorted(WORLD.glob(kind.file)) if kind.file else []
    return paths if kind.name in EVERY else [rng.choice(paths)] if paths else []


def apply(kind, paths, rng):
    if not paths:
        kind.edit(rng)
        return "all files"
    before = after = paths[0].read_bytes()
    while after == before:
        after = kind.edit(before, rng)
    for path in paths:
        write(path, after, rng, whole=not kind.numbers)
    return str(paths[0].relative_to(WORLD))


# --- the sweep ---


def files():
    return sorted(path for path in WORLD.rglob("*") if path.is_file())


def prepare():
    quickstart, rng = SOURCE / "configs/quickstart", random.Random(0)
    words = "the a system package of to and you release install which how kernel with file user from for is in".split()
    text = [" ".join(rng.choice(words) for _ in range(60)) for _ in range(12)]
    for folder in ("run", "data", "tokenizer", "common"):
        (PRISTINE / folder).mkdir(parents=True)
    for step in ("step000100", "step000300"):
        shutil.copytree(quickstart / "trajectory" / step, PRISTINE / "run" / step)
    for folder in ("tokenizer", "common"):
        shutil.copy(quickstart / "trajectory/tokenizer.json", PRISTINE / folder)
    names = {"eos_token": "<|end_of_text|>", "pad_token": "ab"}
    (PRISTINE / "tokenizer/tokenizer_config.json").write_text(json.dumps(names))
    lines = (quickstart / "trajectory.csv").read_text().splitlines()
    (PRISTINE / "trajectory.csv").write_text("\n".join(lines[:3]) + "\n")
    (PRISTINE / "data/text.txt").write_text("\n".join(text))
    rows = [json.dumps({"text": line[: rng.randrange(40, 120)]}) for line in text]
    (PRISTINE / "data/calibration.jsonl.gz").write_bytes(gzip.compress("\n".join(rows).encode() + b"\n", mtime=0))
    header = json.dumps({"ids": {"dtype": "I32", "shape": [2, 16], "data_offsets": [0, 128]}}).encode()
    ids = struct.pack("<32I", *(rng.randrange(1, 2000) for _ in range(32)))
    (PRISTINE / "data/ids.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + ids)
    items = (SOURCE / "tests/fixtures/tasks/inputs/piqa.jsonl").read_bytes().splitlines()[:4]
    (PRISTINE / "data/piqa.jsonl").write_bytes(b"\n".join(items) + b"\n")
    (PRISTINE / "sweep.yaml").write_text(SWEEP.replace("FOLDER", "run"))


def restore():
    shutil.rmtree(WORLD, ignore_errors=True)
    shutil.copytree(PRISTINE, WORLD)
    for path in WORK.glob("r.*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


class Run:
    """A qtraj that runs the sweep; its exit code (None: a hang) and messages once it is done."""

    def __init__(self, results, ranks=1, fault=None):
        environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_MCA_btl="self", OMPI_MCA_ess_singleton_isolated="1")
        command = [QTRAJ, "run", "world/sweep.yaml", "--set", f"results=../{results}"]
        orders = {"FAULT_FOLDER": WORLD, "FAULT_REPORT": REPORT, "LD_PRELOAD": LIBRARY, **(fault or {})}
        REPORT.unlink(missing_ok=True)
        if ranks > 1:
            environment = dict(os.environ, OMP_NUM_THREADS="1")
            command = ["mpirun", "-n", str(ranks), *(["-x", f"LD_PRELOAD={LIBRARY}"] if fault else []), *command]
            orders.pop("LD_PRELOAD")
        if fault:
            environment.update({key: str(value) for key, value in orders.items()})
        self.errors = open(WORK / "errors", "w+b")
        self.process = subprocess.Popen(command, cwd=WORK, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=self.errors)

    def reaches_fault(self):
        while self.process.poll() is None and not REPORT.exists():
            time.sleep(0.002)
        return REPORT.exists()

    def end(self):
        try:
            self.code = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.code = None
        self.errors.seek(0)
        self.err = self.errors.read().decode(errors="replace")
        self.errors.close()
        return self


# --- what is true ---

VOLATILE = ("seconds", "peak_memory", "planned_memory")
DIGESTS = ("weights_hash", "weights_before", "weights_chain", "weights_read", "special_tokens")


def numbers(record):
    """What a record holds but times and places."""
    kept = {key: value for key, value in record.items() if key not in ("provenance", "fingerprint", "message")}
    kept["values"] = {key: value for key, value in record.get("values", {}).items() if not key.startswith(VOLATILE)}
    return kept


def claims(record):
    """What a record claims, with its numbers: those of each text by themselves, as texts come and go."""
    all_numbers = numbers(record)
    texts = all_numbers.pop("datasets", {})
    by_text = {("text", *claim(record)[1:], text): found for text, found in texts.items()}
    return by_text if record["type"] == "completion" and by_text else {claim(record): all_numbers, **by_text}


def parts(a, b, place=""):
    """Where two values first differ; None: nowhere. Numbers may differ by RELATIVE."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return next(filter(None, (parts(a[key], b[key], f"{place}.{key}") for key in a)), None)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next(filter(None, (parts(x, y, f"{place}[{i}]") for i, (x, y) in enumerate(zip(a, b)))), None)
    if isinstance(a, float) and isinstance(b, float) and abs(a - b) <= RELATIVE * max(1, abs(a)):
        return None
    return None if a == b else f"{place[1:]} is {a}, not {b}"


def claim(record):
    """What a record says that its numbers are of."""
    provenance = record.get("provenance", {})
    return (record["type"], record["key"], *(json.dumps(provenance.get(name)) for name in DIGESTS))


def records(results):
    journal = WORK / results.replace(".h5", ".journal")
    lines = journal.read_bytes().splitlines() if journal.exists() else []
    all_lines = (json.loads(line.split(b" ", 1)[1]) for line in lines if line.endswith(b"}"))
    return [record for record in all_lines if "key" in record]


truths = {}  # {digest of all files: (claims with their numbers, the cube)}


def truth():
    """Of the files as they are, by an undisturbed sweep."""
    digest = hashlib.sha256()
    for path in files():
        digest.update(str(path).encode() + path.read_bytes())
    name = digest.hexdigest()[:16]
    if name not in truths:
        run = Run(f"{name}.h5").end()
        if run.code != 0:
            sys.exit(f"an undisturbed run ended with exit code {run.code}\n{run.err}")
        truths[name] = {own: found for record in records(f"{name}.h5") for own, found in claims(record).items()}
    return truths[name], WORK / f"{name}.h5"


def differences(a, b):
    with h5py.File(a) as x, h5py.File(b) as y:
        return list(compare_cubes.compare(x, y, {"fingerprint"}, RELATIVE))


# --- one change ---


class Failed(Exception):
    pass


def check(condition, what, run):
    if not condition:
        raise Failed(f"{what}\nexit code {run.code}\n{run.err[-2000:]}")


def check_numbers(before, after, run):
    for record in records("r.h5"):
        if record["type"] == "loss" or record.get("status", "done") != "done":
            continue
        for own, found in claims(record).items():
            known = [side[own] for side in (before, after) if own in side]
            check(known, f"a {own[0]} record claims what no undisturbed sweep does: {own}", run)
            for other in known:
                check(not parts(found, other), f"WRONG NUMBERS: {own}: {parts(found, other)} as in an undisturbed sweep", run)


def check_failures(run):
    messages = [record["message"] for record in records("r.h5") if record.get("status") == "failed"]
    for message in messages:
        check("changed" in message or "was not there" in message, f"an unexpected failure: {message}", run)
    return len(messages)


def try_change(kind, moment, ranks, rng):
    """Returns what happened, and how many records failed meanwhile."""
    restore()
    before, _ = truth()
    fault, paths = None, choose(kind, rng)
    if moment != "finished":
        rank, folder = rng.randrange(ranks), paths[0] if paths and rng.random() < 0.6 else WORLD
        fault = {"FAULT_CALLS": "open,read", "FAULT_DO": moment, "FAULT_RANK": rank, "FAULT_FOLDER": folder,
                 "FAULT_AT": 1 + rng.randrange(operations(ranks, rank, folder))}
        restore()
    first = Run("r.h5", ranks, fault)
    met = REPORT.read_text().strip() if fault and first.reaches_fault() else ""
    if moment != "wait":
        first.end()
    where = f"{apply(kind, paths, rng)}, at {met.replace(str(WORLD) + '/', '') or 'its end'}"
    if moment == "wait":
        REPORT.unlink(missing_ok=True)
        first.end()
        stale = [3] if kind.weights else []
        check(first.code in (0, 1, *stale) or (first.code == 2 and not records("r.h5")), f"{where}: the first run", first)
    failed = check_failures(first)
    done = len(records("r.h5"))
    after, cube = truth()
    second = Run("r.h5", ranks).end()
    if second.code == 3 and kind.weights:
        second = Run("r.h5", ranks).end()
    check(second.code == 0, f"{where}: the last run", second)
    check_numbers(before, after, second)
    if not kind.numbers:
        keys = collections.Counter((record["type"], record["key"]) for record in records("r.h5"))
        check(failed == 0, f"{where}: records failed", first)
        check(max(keys.values()) == 1, f"{where}: computed twice: {keys.most_common(3)}", second)
        check(moment == "kill" or done == len(records("r.h5")), f"{where}: computed again", second)
    if ranks == 1 and not (kind.weights and moment == "finished"):
        check(not differences(WORK / "r.h5", cube), f"{where}: the cube differs: {differences(WORK / 'r.h5', cube)[:3]}", second)
    return where, failed


@functools.cache
def operations(ranks, rank, folder):
    """How often a rank of an undisturbed run opens and reads what is there."""
    restore()
    fault = {"FAULT_CALLS": "open,read", "FAULT_DO": "wait", "FAULT_AT": 0, "FAULT_RANK": rank, "FAULT_FOLDER": folder}
    Run("r.h5", ranks, fault).end()
    return max(1, int(REPORT.read_text().split()[0]) if REPORT.exists() else 0)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--changes", type=int, default=14)
parser.add_argument("--seed", type=int, default=int(time.time()))
parser.add_argument("--only", default="", help="a word of the kinds' names")
parser.add_argument("--verbose", action="store_true", help="a line for each change")
options = parser.parse_args()
prepare()
print(f"seed {options.seed}")
chosen = [kind for kind in KINDS if options.only in kind.name]
wrong, tally = 0, collections.Counter()
for i in range(options.changes):
    rng = random.Random(f"{options.seed} {i}")
    kind = chosen[i % len(chosen)]
    moment = rng.choice(["wait", "wait", "wait", "kill", "finished"] if kind.during else ["kill", "finished"])
    ranks = 3 if options.changes > len(KINDS) and rng.random() < 0.3 else 1
    try:
        where, failed = try_change(kind, moment, ranks, rng)
        tally[f"{kind.name}: {moment}"] += 1
        tally["records that failed and were made again"] += failed
        if options.verbose:
            print(f"{i} {kind.name}, {moment}, {ranks} ranks: {where}: {failed} failed", flush=True)
    except Failed as why:
        wrong += 1
        print(f"FAIL: change {i}, {kind.name}, {moment}, {ranks} ranks: {why}", flush=True)
for what, times in sorted(tally.items()):
    print(f"{times:6} {what}")
print(f"{options.changes} changes, {wrong} failed" if wrong else f"{options.changes} changes: all good")
sys.exit(1 if wrong else 0)
