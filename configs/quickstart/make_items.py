#!/usr/bin/env python3
"""Makes multiple-choice items of a text, in the form of two tasks' data, for configs/quickstart/tasks.yaml.

usage: make_items.py TEXT[.gz] FOLDER [ITEMS]

Real tasks ask for knowledge that a model of a million parameters does not have; these ask which words go on in a text:
hellaswag.jsonl    the beginning of a sentence behind the sentence before it; four endings of about
                   the same length, three of them of other sentences
piqa.jsonl         two sentences, one with two neighbouring words of its second half exchanged
The first third of the text is left out: the sweep calibrates on it. The same text gives the same items. ITEMS (200) of each; further ones become the rows that examples are taken from.
"""
import gzip
import json
import pathlib
import random
import re
import sys


def sentences(path):
    """Those of 6 to 40 words, in order; None where the text between them was left out."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    for paragraph in re.split(r"\n\s*\n", text[len(text) // 3:]):
        for sentence in re.split(r"(?<=[.!?:])\s+", " ".join(paragraph.split())):
            plain = re.fullmatch(r"[A-Z][^<>_*=|]+[.!?:]", sentence)
            yield sentence if plain and 6 <= len(sentence.split()) <= 40 else None
        yield None


def continued(draw, before, sentence, others):
    words = sentence.split()
    alike = sorted(others, key=lambda x: abs(len(x) - len(sentence)))[:12]
    endings = [" ".join(words[3:])] + [" ".join(x.split()[3:]) for x in draw.sample(alike, 3)]
    label = draw.randrange(4)
    endings[0], endings[label] = endings[label], endings[0]
    return {"activity_label": "Debian", "ctx_a": before, "ctx_b": " ".join(words[:3]), "endings": endings, "label": str(label)}


def reordered(draw, before, sentence):
    words = sentence.split()
    at = draw.randrange(len(words) // 2, len(words) - 1)
    label = draw.randrange(2)
    both = [sentence, " ".join(words[:at] + [words[at + 1], words[at]] + words[at + 2:])]
    return {"goal": before, "sol1": both[label], "sol2": both[1 - label], "label": label}


def main(path, folder, items):
    found = list(sentences(path))
    pairs = [(a, b) for a, b in zip(found, found[1:]) if a and b]
    others = sorted({b for _, b in pairs})
    draw = random.Random(0)
    draw.shuffle(pairs)
    pool = 16
    if len(pairs) < items + pool:
        sys.exit(f"{path}: {len(pairs)} pairs of sentences, expected {items + pool}")
    folder.mkdir(parents=True, exist_ok=True)
    for task in ("hellaswag", "piqa"):
        rows = []
        for before, sentence in pairs[:items + pool]:
            wrong = [x for x in others if x != sentence]
            rows.append(continued(draw, before, sentence, wrong) if task == "hellaswag" else reordered(draw, before, sentence))
        for name, part in ((task, rows[:items]), (f"{task}.fewshot", rows[items:])):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in part))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) == 4 else 200)
