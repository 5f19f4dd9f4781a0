"""qtraj tasks and qtraj eval --tasks against a folder of requests and scores of lm-evaluation-harness (tasks.sh).

usage: tasks.py prompts QTRAJ FOLDER TOKENIZER
  FOLDER/inputs/TASK.jsonl and TASK.fewshot.jsonl, FOLDER/requests/TASK.{0,5}shot.jsonl; token ids are compared where
  FOLDER/scores/TASK.{0,5}shot.jsonl has them.
usage: tasks.py scores QTRAJ FOLDER CHECKPOINT
  FOLDER/scores, FOLDER/summary.json: log-likelihoods, greedy, accuracies and standard errors; CHECKPOINT is the model that
  the scores are of. Once with shared contexts, once with --apart.
usage: tasks.py itself QTRAJ FOLDER CHECKPOINT TOKENIZER
  the same numbers without a reference: from the logits that `qtraj eval --logits` gives for the tokens of each request
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "../tools"))


def read(path):
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def prompts(binary, folder, tokenizer):
    """Compares every text, gold and token id byte for byte; returns how many choices there were."""
    n = 0
    for path in sorted(folder.glob("requests/*shot.jsonl")):
        task, shots = path.name.removesuffix("shot.jsonl").split(".")
        expected = read(path)
        done = subprocess.run([binary, "tasks", task, "--task-data", folder / "inputs", "--shots", shots, "--limit",
                               str(len(expected)), "--tokenizer", tokenizer], capture_output=True, text=True)
        assert done.returncode == 0, (task, shots, done.stderr)
        got = [json.loads(line) for line in done.stdout.splitlines()]
        scores = folder / "scores" / path.name
        tokens = read(scores) if scores.exists() else [{} for _ in expected]
        assert len(got) == len(expected) == len(tokens), (task, shots, len(got), len(expected))
        for want, ids, x in zip(expected, tokens, got):
            choices = len(want["continuations"])
            where = (task, shots, want["doc_id"])
            assert x["item"] == want["doc_id"], where
            assert x["gold"] == (None if want["gold"] < 0 else want["gold"]), (where, x["gold"], want["gold"])
            contexts = want.get("contexts", [want.get("context")] * choices)
            assert x["contexts"] == contexts, (where, x["contexts"], contexts)
            assert x["continuations"] == want["continuations"], (where, x["continuations"], want["continuations"])
            if ids:
                before = ids.get("context_tokens_each", [ids.get("context_tokens")] * choices)
                assert x["context_tokens"] == before, (where, "context_tokens")
                assert x["continuation_tokens"] == ids["continuation_tokens"], (where, "continuation_tokens")
            n += choices
    return n


def evaluate(binary, checkpoint, data, tasks, shots, limit, *flags):
    """The JSON of qtraj eval, and the choices by (task, item, choice)."""
    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / "choices.jsonl"
        done = subprocess.run([binary, "eval", checkpoint, "--tasks", ",".join(tasks), "--task-data", data, "--shots",
                               str(shots), "--limit", str(limit), "--log-likelihoods", out, "--json", *flags],
                              capture_output=True, text=True)
        assert done.returncode == 0, (tasks, shots, done.stderr)
        return json.loads(done.stdout)["tasks"], {(x["task"], x["item"], x["choice"]): x for x in read(out)}


def compare_scores(task, expected, got):
    """Compares the choices of a task; returns the largest difference as a part of what is allowed."""
    worst = 0
    for x in expected:
        for c, (ll, ids, greedy) in enumerate(zip(x["ll"], x["continuation_tokens"], x["is_greedy"])):
            y = got.pop((task, x["doc_id"], c))
            allowed = 1e-5 * abs(ll) + 1e-5 * len(ids)
            worst = max(worst, abs(y["log_likelihood"] - ll) / allowed)
            assert worst <= 1, (task, x["doc_id"], c, y["log_likelihood"], ll)
            assert y["tokens"] == len(ids) and y["greedy"] == greedy, (task, x["doc_id"], c)
    return worst


def scores(binary, folder, checkpoint):
    """Compares all scores, each number of shots in one run of all tasks; returns how many choices there were."""
    n = 0
    summary = json.loads((folder / "summary.json").read_text())
    for shots, flags in ((0, []), (5, []), (5, ["--apart"])):
        all_tasks = {p.name.split(".")[0]: read(p) for p in sorted(folder.glob(f"scores/*.{shots}shot.jsonl"))}
        for limit in sorted({len(x) for x in all_tasks.values()}):
            expected = {task: x for task, x in all_tasks.items() if len(x) == limit}
            accuracies, got = evaluate(binary, checkpoint, folder / "inputs", expected, shots, limit, *flags)
            choices = len(got)
            worst = max(compare_scores(task, x, got) for task, x in expected.items())
            assert not got, f"more choices than expected: {list(got)[:3]}"
            for task in expected:
                want = summary["tasks"][task][f"{shots}shot"]
                assert accuracies[task]["items_truncated"] == want["docs_truncated"], (task, shots, accuracies[task], want)
                for ours, theirs in (("accuracy", "acc"), ("accuracy_norm", "acc_norm")):
                    for end in ("", "_stderr"):
                        a, b = accuracies[task][ours + end], want.get(theirs + end)
                        assert a == b or abs(a - b) < 1e-12, (task, shots, ours + end, a, b)
            n += choices
            print(f"{len(expected)} tasks, {shots} shots, {choices} choices {flags}: at most {worst:.3f} of the tolerance")
        if not flags:
            subjects = {t for t in all_tasks if t.startswith("mmlu_")}
            got, _ = evaluate(binary, checkpoint, folder / "inputs", ["mmlu"], shots, 20)
            want = summary["tasks"]["mmlu"][f"{shots}shot"]
            assert set(got) == subjects | {"mmlu"}, got
            assert abs(got["mmlu"]["accuracy"] - want["acc"]) < 1e-12, (got, want)
            assert abs(got["mmlu"]["accuracy_stderr"] - want["acc_stderr"]) < 1e-12, (got, want)
    return n


def write_ids(path, rows):
    """A safetensors file with the rows as `ids`, filled up with -1."""
    width = max(map(len, rows))
    data = b"".join(struct.pack(f"<{width}i", *row, *[-1] * (width - len(row))) for row in rows)
    header = json.dumps({"ids": {"dtype": "I32", "shape": [len(rows), width], "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def expected_of(binary, checkpoint, work, requests, positions):
    """Log-likelihood and greedy of each request (context ids, continuation ids) by the logits of its tokens."""
    import numpy
    from safetensors_reader import load
    rows = [(before + after)[-positions - 1:] for before, after in requests]
    write_ids(work / "ids.safetensors", rows)
    done = subprocess.run([binary, "eval", checkpoint, "--ids", f"{work}/ids.safetensors:ids", "--logits",
                           work / "logits.safetensors", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    logits = load(str(work / "logits.safetensors"))
    for i, (row, (_, after)) in enumerate(zip(rows, requests)):
        own = logits["logits"][i] if "logits" in logits else logits[f"logits.{i}"]  # all of one length, or not
        x = own[len(row) - 1 - len(after):len(row) - 1].astype(numpy.float64)
        top = x.max(axis=1, keepdims=True)
        log_p = x - top - numpy.log(numpy.exp(x - top).sum(axis=1, keepdims=True))
        yield log_p[range(len(after)), after].sum(), bool((x.argmax(axis=1) == after).all())


def itself(binary, folder, checkpoint, tokenizer):
    n = 0
    positions = json.loads((pathlib.Path(checkpoint) / "config.json").read_text())["max_position_embeddings"]
    every = sorted(x.name.removesuffix(".fewshot.jsonl") for x in folder.glob("inputs/*.fewshot.jsonl"))
    # 30 examples are more than the model has positions
    for tasks, shots, limit in ((every, 0, 2), (["mmlu_made_up", "piqa", "winogrande"], 5, 3), (["arc_easy"], 30, 1)):
        requests = {}
        for task in tasks:
            done = subprocess.run([binary, "tasks", task, "--task-data", folder / "inputs", "--shots", str(shots), "--limit",
                                   str(limit), "--tokenizer", tokenizer], capture_output=True, text=True)
            for x in map(json.loads, done.stdout.splitlines()):
                for c, pair in enumerate(zip(x["context_tokens"], x["continuation_tokens"])):
                    requests[task, x["item"], c] = pair
        truncated = sum(len(a) + len(b) > positions + 1 for a, b in requests.values())
        assert (truncated > 0) == (shots == 30), (shots, truncated)
        with tempfile.TemporaryDirectory() as work:
            want = dict(zip(requests, expected_of(binary, checkpoint, pathlib.Path(work), list(requests.values()), positions)))
        for flags in ([], ["--apart"]):
            _, got = evaluate(binary, checkpoint, folder / "inputs", tasks, shots, limit, *flags)
            assert got.keys() == want.keys(), (tasks, shots)
            for key, (ll, greedy) in want.items():
                x = got[key]["log_likelihood"]
                allowed = 1e-5 * abs(ll) + 1e-5 * got[key]["tokens"]
                assert abs(x - ll) <= allowed, (key, shots, flags, x, ll)
                assert got[key]["greedy"] == greedy, (key, shots, flags)
                n += 1
    return n


def main():
    what, binary, folder, *more = sys.argv[1:]
    n = {"prompts": prompts, "scores": scores, "itself": itself}[what](binary, pathlib.Path(folder), *more)
    assert n > 0, f"{folder}: nothing to compare"
    print(f"{folder}: {n} choices, {what} are equal")


main()
