#!/usr/bin/env python3
"""Time to score HellaSwag-like items, four choices each, with qtraj and with lm-evaluation-harness on the same cores.

usage: tasks.py QTRAJ [--peer PYTHON] [--only NAME...] [--bf16] [--threads 2] [--batches 1,8,32] [--trial 16] [--work DIR]

quickstart  1000 items without examples, the model of configs/quickstart at step 1200
160m        100 items without examples, the shape of Pythia 160M with random weights
160m-5      20 items with five examples, the same

PYTHON is a Python with lm_eval, torch and transformers (in a virtual environment); without it only qtraj runs. Both compute
in f32, or with --bf16 in products of bf16 numbers. The harness runs at the best of the batch sizes, found on the first `trial` items; its time is that of
simple_evaluate alone, and, in a line of its own, that of the whole command with imports and loading of the model. That of qtraj is the
whole command's, once with shared contexts and once with every choice apart. Wall times, and in brackets processor times, which shared
machines change less.
Then the log-likelihoods of the two are compared. The items are made from a seed, of the words of docs/.

"least work" are the floating-point operations of the products with weights, without padding: ours, those with every choice
apart and logits at all positions, as the harness has them, and their ratio, which is how much faster the same rate would be.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
QUICKSTART = HERE.parents[1] / "configs" / "quickstart"
PYTHIA = ["--family", "gpt_neox", "--hidden", "768", "--layers", "12", "--heads", "12", "--intermediate", "3072", "--vocab",
          "50304", "--dtype", "F32", "--set", "max_position_embeddings=2048", "--set", "rotary_pct=0.25", "--set",
          "use_parallel_residual=true"]
SETUPS = {"quickstart": ("quickstart", 1000, 0), "160m": ("160m", 100, 0), "160m-5": ("160m", 20, 5)}

PEER = '''
import json, pathlib, resource, shutil, sys, time
import torch
import lm_eval
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
work, checkpoint, tokenizer, shots, limit, batch, threads, dtype, out = sys.argv[1:]
torch.set_num_threads(int(threads))
work = pathlib.Path(work)
source = pathlib.Path(lm_eval.__file__).parent / "tasks" / "hellaswag"
(work / "task").mkdir(exist_ok=True)
shutil.copy(source / "utils.py", work / "task" / "utils.py")
text = (source / "hellaswag.yaml").read_text()
text = text.replace("task: hellaswag", "task: made_hellaswag").replace("dataset_path: Rowan/hellaswag", "dataset_path: json")
files = {"validation": str(work / "hellaswag.jsonl"), "train": str(work / "hellaswag.fewshot.jsonl")}
(work / "task" / "task.yaml").write_text(text + "\\ndataset_kwargs:\\n  data_files:\\n" +
                                         "".join(f"    {k}: {v}\\n" for k, v in files.items()))
end = "<|end_of_text|>"
fast = PreTrainedTokenizerFast(tokenizer_file=tokenizer, bos_token=end, eos_token=end, pad_token=end)
model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=getattr(torch, dtype))
lm = HFLM(pretrained=model, tokenizer=fast, backend="causal", batch_size=int(batch), device="cpu")
def cpu():
    x = resource.getrusage(resource.RUSAGE_SELF)
    return x.ru_utime + x.ru_stime
begin, cpu_begin = time.perf_counter(), cpu()
got = lm_eval.simple_evaluate(model=lm, tasks=["made_hellaswag"], num_fewshot=int(shots), limit=int(limit), log_samples=True,
                              bootstrap_iters=0, task_manager=TaskManager(include_path=str(work / "task"), include_defaults=False))
seconds, cpu_seconds = time.perf_counter() - begin, cpu() - cpu_begin
choices = {x["doc_id"]: [float(y[0]) for y in x["filtered_resps"]] for x in got["samples"]["made_hellaswag"]}
scores = {k: v for k, v in got["results"]["made_hellaswag"].items() if "," in k}
pathlib.Path(out).write_text(json.dumps({"seconds": seconds, "cpu": cpu_seconds, "choices": choices, "scores": scores}))
'''


def words_of_text():
    text = " ".join(x.read_text() for x in sorted((HERE.parents[1] / "docs").glob("*.md")))
    return [w for w in text.split() if w.isalpha()]


def make_items(path, n, seed):
    """Lengths in words about as in HellaSwag: a third short captions, two thirds longer instructions."""
    rng, words = random.Random(seed), words_of_text()

    def sentence(low, high):
        start = rng.randrange(len(words) - high)
        return " ".join(words[start:start + rng.randint(low, high)])

    with open(path, "w") as f:
        for i in range(n):
            short = rng.random() < 1 / 3
            f.write(json.dumps({"ind": i, "activity_label": sentence(2, 4), "ctx_a": sentence(12, 30) if short else sentence(30, 80),
                                "ctx_b": sentence(1, 4) if short else "", "label": str(rng.randrange(4)),
                                "endings": [(sentence(6, 18) if short else sentence(15, 35)) + "." for _ in range(4)]}) + "\n")


def cpu_of_children():
    x = resource.getrusage(resource.RUSAGE_CHILDREN)
    return x.ru_utime + x.ru_stime


class Bench:
    def __init__(self, a, work):
        self.a, self.work = a, pathlib.Path(work)
        make_items(self.work / "hellaswag.jsonl", 1000, 1)
        make_items(self.work / "hellaswag.fewshot.jsonl", 100, 2)
        self.tokenizer = QUICKSTART / "trajectory" / "tokenizer.json"

    def model(self, name):
        if name == "quickstart":
            return QUICKSTART / "trajectory" / "step001200"
        path = self.work / name
        if not path.is_dir():
            subprocess.run([sys.executable, HERE / "make_checkpoint.py", self.a.qtraj, path, *PYTHIA], check=True, stdout=subprocess.DEVNULL)
        return path

    def run(self, command):
        """Wall and processor seconds of a command, and what it prints."""
        threads = str(self.a.threads)
        env = {**os.environ, "OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive", "HF_HUB_OFFLINE": "1"}
        begin, cpu = time.perf_counter(), cpu_of_children()
        done = subprocess.run([str(x) for x in command], capture_output=True, text=True, env=env)
        if done.returncode != 0:
            sys.exit(f"{command}: {done.stderr}")
        return time.perf_counter() - begin, cpu_of_children() - cpu, done.stdout

    def least_work(self, model, items, shots):
        """GFLOP of the products with weights: shared contexts, and every choice apart with logits everywhere."""
        text = self.run([self.a.qtraj, "tasks", "hellaswag", "--task-data", self.work, "--shots", shots, "--limit", items,
                         "--tokenizer", self.tokenizer])[2]
        rows = [json.loads(x) for x in text.splitlines()]
        contexts = [len(x["context_tokens"][0]) for x in rows]
        inner = [sum(len(y) - 1 for y in x["continuation_tokens"]) for x in rows] # a last token predicts nothing
        c = json.loads((self.model(model) / "config.json").read_text())
        d, kv = c["hidden_size"], c.get("num_key_value_heads", c["num_attention_heads"]) / c["num_attention_heads"]
        matrices = 2 if c["model_type"] == "gpt_neox" else 3
        block = c["num_hidden_layers"] * d * ((2 + 2 * kv) * d + matrices * c["intermediate_size"])
        head = d * c["vocab_size"]
        shared = sum(contexts) + sum(inner)
        apart = 4 * sum(contexts) + sum(inner)
        return 2e-9 * (shared * block + (items + sum(inner)) * head), 2e-9 * apart * (block + head)

    def ours(self, model, items, shots, *flags):
        flags += ("--products", "bf16") if self.a.bf16 else ()
        out = self.work / "choices.jsonl"
        seconds, cpu, text = self.run([self.a.qtraj, "eval", self.model(model), "--tokenizer", self.tokenizer, "--tasks", "hellaswag",
                                       "--task-data", self.work, "--shots", shots, "--limit", items, "--log-likelihoods", out,
                                       "--json", *flags])
        choices = {(x["item"], x["choice"]): x["log_likelihood"] for x in map(json.loads, out.read_text().splitlines())}
        return seconds, cpu, json.loads(text)["tasks"]["hellaswag"], choices

    def harness(self, model, items, shots, batch):
        out = self.work / "peer.json"
        (self.work / "peer.py").write_text(PEER)
        seconds, cpu, _ = self.run([self.a.peer, self.work / "peer.py", self.work, self.model(model), self.tokenizer, shots, items,
                                    batch, self.a.threads, "bfloat16" if self.a.bf16 else "float32", out])
        return {**json.loads(out.read_text()), "command": seconds, "command_cpu": cpu}

    def compare(self, name):
        model, items, shots = SETUPS[name]
        shared, apart = self.ours(model, items, shots), self.ours(model, items, shots, "--apart")
        least, most = self.least_work(model, items, shots)
        print(f"{name}: {items} items, {shots} examples, {self.a.threads} threads, {'bf16' if self.a.bf16 else 'f32'}")
        print(f"  least work                {least:8.0f} GFLOP, apart {most:.0f}, ratio {most / least:.2f}")
        print(f"  qtraj, shared contexts    {shared[0]:8.1f} s ({shared[1]:.1f}), {least / shared[0]:.0f} GFLOP/s")
        print(f"  qtraj, every choice apart {apart[0]:8.1f} s ({apart[1]:.1f})", flush=True)
        print(f"  largest difference of the two {max(abs(x - apart[3][k]) for k, x in shared[3].items()):.2g}", flush=True)
        if not self.a.peer:
            return
        trials = {b: self.harness(model, min(self.a.trial, items), shots, b)["cpu"] for b in self.a.batches}
        batch = min(trials, key=trials.get)
        theirs = self.harness(model, items, shots, batch)
        print(f"  harness, batches of {batch:<4}  {theirs['seconds']:8.1f} s ({theirs['cpu']:.1f}), {most / theirs['seconds']:.0f} GFLOP/s; trials "
              + ", ".join(f"{b}: {t:.1f}" for b, t in trials.items()))
        print(f"  its whole command         {theirs['command']:8.1f} s ({theirs['command_cpu']:.1f})")
        print(f"  harness / qtraj           {theirs['seconds'] / shared[0]:8.2f}   ({theirs['cpu'] / shared[1]:.2f}), whole commands "
              f"{theirs['command'] / shared[0]:.2f}   ({theirs['command_cpu'] / shared[1]:.2f})")
        pairs = [(shared[3][int(i), c], x) for i, row in theirs["choices"].items() for c, x in enumerate(row)]
        print(f"  log-likelihoods: largest relative difference {max(abs(x - y) / abs(y) for x, y in pairs):.2g} of {len(pairs)}; "
              f"accuracy {shared[2]['accuracy']:.4f} and {theirs['scores']['acc,none']:.4f}, normalized "
              f"{shared[2]['accuracy_norm']:.4f} and {theirs['scores']['acc_norm,none']:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("qtraj", type=lambda x: str(pathlib.Path(x).resolve()))
    parser.add_argument("--peer", help="a Python with lm_eval")
    parser.add_argument("--only", nargs="+", choices=SETUPS, default=list(SETUPS))
    parser.add_argument("--bf16", action="store_true", help="products of bf16 numbers in both")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=lambda x: [int(y) for y in x.split(",")], default=[1, 8, 32])
    parser.add_argument("--trial", type=int, default=16)
    parser.add_argument("--work", help="a folder that is kept, with the model in it")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(a.work or temporary)
        work.mkdir(exist_ok=True, parents=True)
        bench = Bench(a, work.resolve())
        for name in a.only:
            bench.compare(name)


main()
