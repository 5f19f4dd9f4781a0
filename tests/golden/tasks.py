"""qtraj tasks and qtraj eval --tasks against a folder of requests and scores of lm-evaluation-harness (tasks.sh).

usage: tasks.py prompts QTRAJ FOLDER TOKENIZER
  FOLDER/inputs/TASK.jsonl and TASK.fewshot.jsonl, FOLDER/requests/TASK.{0,5}shot.jsonl; token ids are compared where
  FOLDER/scores/TASK.{0,5}shot.jsonl has them.
"""
import json
import pathlib
import subprocess
import sys


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


def main():
    what, binary, folder, tokenizer = sys.argv[1:]
    assert what == "prompts"
    n = prompts(binary, pathlib.Path(folder), tokenizer)
    assert n > 0, f"{folder}: nothing to compare"
    print(f"{folder}: {n} choices of prompts are equal")


main()
