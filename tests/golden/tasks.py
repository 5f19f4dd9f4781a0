"""qtraj tasks and qtraj eval --tasks against a folder of requests and scores of lm-evaluation-harness (tasks.sh).

usage: tasks.py prompts QTRAJ FOLDER TOKENIZER
  FOLDER/inputs/TASK.jsonl and TASK.fewshot.jsonl, FOLDER/requests/TASK.{0,5}shot.jsonl; token ids are compared where
  FOLDER/scores/TASK.{0,5}shot.jsonl has them.
usage: tasks.py scores QTRAJ FOLDER CHECKPOINT
  FOLDER/scores, FOLDER/summary.json: log-likelihoods, greedy, accuracies and standard errors; CHECKPOINT is the model that
  the scores are of. Once with shared contexts, once with --apart.
usage: tasks.py itself QTRAJ FOLDER CHECKPOINT TOKENIZER
  the same numbers without a reference: from the logits that `qtraj eval --logits` gives for the tokens of each request.
  Then of items some of whose choices are equal: equal choices have equal log-likelihoods, and the first of them wins
usage: tasks.py harness QTRAJ FOLDER CHECKPOINT TOKENIZER
  the accuracies of such items against lm-evaluation-harness (package lm_eval, without torch), which asks and decides by
  itself and gets those numbers as log-likelihoods; by hand
"""
import contextlib
import json
import pathlib
import random
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


def requests_of(binary, data, tokenizer, tasks, shots, limit):
    """What qtraj asks: {(task, item): a line of `qtraj tasks`}."""
    rows = {}
    for task in tasks:
        done = subprocess.run([binary, "tasks", task, "--task-data", data, "--shots", str(shots), "--limit", str(limit),
                               "--tokenizer", tokenizer], capture_output=True, text=True)
        assert done.returncode == 0, (task, done.stderr)
        rows |= {(task, x["item"]): x for x in map(json.loads, done.stdout.splitlines())}
    return rows


def pairs_of(row):
    """The token ids of each choice, context and continuation."""
    return [(tuple(a), tuple(b)) for a, b in zip(row["context_tokens"], row["continuation_tokens"])]


def expected_of_all(binary, checkpoint, rows):
    """{(context ids, continuation ids): (log-likelihood, greedy)}, and how many requests are too long for the model."""
    positions = json.loads((pathlib.Path(checkpoint) / "config.json").read_text())["max_position_embeddings"]
    pairs = sorted({pair for row in rows.values() for pair in pairs_of(row)})
    want = {}
    for i in range(0, len(pairs), 500):  # the logits of all tokens are in one file
        with tempfile.TemporaryDirectory() as work:
            some = pairs[i:i + 500]
            want |= zip(some, expected_of(binary, checkpoint, pathlib.Path(work), some, positions))
    return want, sum(len(a) + len(b) > positions + 1 for a, b in pairs)


def decide(scores):
    """The harness's decision, numpy.argmax: the first of the largest scores, or of those that are not numbers."""
    import numpy
    return int(numpy.argmax(numpy.array(scores)))


def accuracy_by_rule(rows, want, normalized):
    """The mean over the items of one task."""
    import numpy
    right = 0
    for row in rows:
        ll = numpy.array([want[pair][0] for pair in pairs_of(row)])
        with numpy.errstate(divide="ignore"):
            right += decide(ll / [len(x) - 1 for x in row["continuations"]] if normalized else ll) == row["gold"]
    return right / len(rows)


def compare_choices(rows, want, got):
    """Returns how many choices there are, and how many are equal to another one of their item."""
    n = equal = 0
    for (task, item), row in rows.items():
        first = {}
        for c, pair in enumerate(pairs_of(row)):
            x, (ll, greedy) = got[task, item, c], want[pair]
            assert abs(x["log_likelihood"] - ll) <= 1e-5 * abs(ll) + 1e-5 * x["tokens"], (task, item, c, x, ll)
            assert x["greedy"] == greedy, (task, item, c)
            equal += pair in first
            assert first.setdefault(pair, x["log_likelihood"]) == x["log_likelihood"], (task, item, c, "equal choices differ")
            n += 1
    assert n == len(got), "more choices than expected"
    return n, equal


def compare_accuracies(rows, want, accuracies):
    for task in {task for task, _ in rows}:
        of = [row for (name, _), row in rows.items() if name == task]
        for field in ("accuracy", "accuracy_norm"):
            if accuracies[task][field] is not None:
                expected = accuracy_by_rule(of, want, field == "accuracy_norm")
                assert abs(accuracies[task][field] - expected) < 1e-12, (task, field, accuracies[task], expected)


def repeat_choices(task, row, rng):
    """Makes some choices of a row equal to others, where the task's choices are texts."""
    if "choices" in row and task.startswith(("arc", "openbookqa")):
        texts = row["choices"]["text"]
    elif task == "hellaswag":
        texts = row["endings"]
    elif task == "mathqa":
        texts = [rng.choice("12345") for _ in range(5)]
        row["options"] = "a ) {} , b ) {} , c ) {} , d ) {} , e ) {}".format(*texts)
        return
    else:
        names = {"piqa": ["sol1", "sol2"], "winogrande": ["option1", "option2"], "social_iqa": ["answerA", "answerB", "answerC"],
                 "sciq": ["distractor1", "distractor2", "distractor3", "correct_answer"]}.get(task, [])
        texts = [row[x] for x in names]
    for _ in range(len(texts) - 1):
        a, b = rng.sample(range(len(texts)), 2)
        texts[a] = texts[b]
    if task not in ("hellaswag", "openbookqa") and not task.startswith("arc") and texts:
        row.update(zip(names, texts))


@contextlib.contextmanager
def repeated(folder, copies):
    """A folder of the tasks' data, with every item that many times, most of them with equal choices."""
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as work:
        for path in sorted(folder.glob("inputs/*.jsonl")):
            task, rows = path.name.split(".")[0], read(path)
            if not path.name.endswith(".fewshot.jsonl"):
                rows = [json.loads(json.dumps(row)) for row in rows for _ in range(copies)]
                for row in rows:
                    repeat_choices(task, row, rng)
            (pathlib.Path(work) / path.name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        yield pathlib.Path(work)


def every_task(data):
    return sorted(x.name.removesuffix(".fewshot.jsonl") for x in data.glob("*.fewshot.jsonl"))


def itself(binary, folder, checkpoint, tokenizer):
    n = 0
    data = folder / "inputs"
    with repeated(folder, 5) as equal_data:
        # 30 examples are more than the model has positions
        for data, tasks, shots, limit in ((data, every_task(data), 0, 2), (data, ["mmlu_made_up", "piqa", "winogrande"], 5, 3),
                                          (data, ["arc_easy"], 30, 1), (equal_data, every_task(data), 0, 0)):
            rows = requests_of(binary, data, tokenizer, tasks, shots, limit)
            want, truncated = expected_of_all(binary, checkpoint, rows)
            assert (truncated > 0) == (shots == 30), (shots, truncated)
            for flags in ([], ["--apart"]):
                accuracies, got = evaluate(binary, checkpoint, data, tasks, shots, limit, *flags)
                choices, equal = compare_choices(rows, want, got)
                assert (equal > 100) == (data == equal_data), equal
                compare_accuracies(rows, want, accuracies)
                n += choices
    return n


def harness_accuracies(data, tasks, shots, limit, answers):
    """What lm-evaluation-harness makes of the data with answers(context, continuation) for a model."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._yaml_loader import load_yaml

    class Answers(LM):
        def loglikelihood(self, requests):
            return [answers(*x.args) for x in requests]

        loglikelihood_rolling = generate_until = None

    Answers.__abstractmethods__ = frozenset()
    index = TaskManager().task_index
    objects = []
    for task in tasks:
        items, examples = str(data / f"{task}.jsonl"), str(data / f"{task}.fewshot.jsonl")
        files = {"train": examples, "dev": examples, "validation": items, "test": items}
        config = load_yaml(index[task].yaml_path, resolve_func=True, recursive=True)
        for key in ("tag", "group", "task_list"):
            config.pop(key, None)
        objects.append(ConfigurableTask(config=config | {"dataset_path": "json", "dataset_name": None,
                                                         "dataset_kwargs": {"data_files": files}}))
    return simple_evaluate(model=Answers(), tasks=objects, num_fewshot=shots, limit=limit or None)["results"]


def harness(binary, folder, checkpoint, tokenizer):
    n = equal = 0
    with repeated(folder, 2) as data:
        tasks = [x for x in every_task(data) if x != "mmlu_made_up"]  # no subject of the harness's
        for shots, limit in ((0, 0), (5, 10)):
            rows = requests_of(binary, data, tokenizer, tasks, shots, limit)
            want, _ = expected_of_all(binary, checkpoint, rows)
            asked = {request: want[pair] for x in rows.values() for request, pair in
                     zip(zip(x["contexts"], x["continuations"]), pairs_of(x))}
            theirs = harness_accuracies(data, tasks, shots, limit, lambda *request: asked[request])
            for flags in ([], ["--apart"]):
                ours, got = evaluate(binary, checkpoint, data, tasks, shots, limit, *flags)
                counted = compare_choices(rows, want, got)
                n, equal = n + counted[0], equal + counted[1]
                for task in tasks:
                    for field, name in (("accuracy", "acc"), ("accuracy_norm", "acc_norm")):
                        for end in ("", "_stderr"):
                            a, b = ours[task][field + end], theirs[task].get(f"{name}{end},none")
                            assert a == b or abs(a - b) < 1e-12, (task, shots, flags, field + end, a, b)
    print(f"{equal} choices that are equal to others")
    return n


def main():
    what, binary, folder, *more = sys.argv[1:]
    n = {"prompts": prompts, "scores": scores, "itself": itself, "harness": harness}[what](binary, pathlib.Path(folder), *more)
    assert n > 0, f"{folder}: nothing to compare"
    print(f"{folder}: {n} choices, {what} are equal")


main()
