#!/usr/bin/env python3
"""qtraj tokenize compared with the `tokenizers` package (PyPI) on the same text, one thread each; ids must be equal.

The text is repeated to 10 MB and cut into documents at line ends. qtraj's time is that of the whole command, including
start, loading the tokenizer and printing ids; the package's is encoding only.

usage: tokenizer.py QTRAJ TOKENIZER.json TEXT[.gz] [DOCUMENT_BYTES]
"""
import gzip
import json
import os
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer

qtraj, path, text_path = sys.argv[1:4]
size = int(sys.argv[4]) if len(sys.argv) > 4 else 4096
with (gzip.open if text_path.endswith(".gz") else open)(text_path, "rt", encoding="utf-8") as f:
    text = f.read()
text = (text * (10_000_000 // len(text) + 1))[:10_000_000]
documents, current, length = [], [], 0
for line in text.splitlines(keepends=True):
    current.append(line)
    length += len(line)
    if length >= size:
        documents.append("".join(current))
        current, length = [], 0
documents.append("".join(current))
megabytes = sum(len(d.encode()) for d in documents) / 1e6
lines = "".join(json.dumps(d) + "\n" for d in documents)

start = time.perf_counter()
out = subprocess.run([qtraj, "tokenize", path, "--json"], input=lines, capture_output=True, text=True, check=True,
                     env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
ours = time.perf_counter() - start
tokenizer = Tokenizer.from_file(path)
start = time.perf_counter()
theirs_ids = [tokenizer.encode(d, add_special_tokens=False).ids for d in documents]
theirs = time.perf_counter() - start
ours_ids = [json.loads(line) for line in out.splitlines()]
print(f"{megabytes:.1f} MB in {len(documents)} documents, {sum(map(len, ours_ids))} tokens, ids {'equal' if ours_ids == theirs_ids else 'DIFFER'}")
print(f"qtraj      {ours:6.2f} s  {megabytes / ours:6.1f} MB/s (whole command)")
print(f"tokenizers {theirs:6.2f} s  {megabytes / theirs:6.1f} MB/s   ratio {theirs / ours:.1f}")
sys.exit(ours_ids != theirs_ids)
