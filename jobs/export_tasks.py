#!/usr/bin/env python3
"""Exports the data of the tasks from the Hugging Face hub to JSON lines, for qtraj eval --tasks (docs/tasks.md).

usage: export_tasks.py FOLDER [TASK...]     all tasks by default; mmlu is all of its subjects, mmlu_SUBJECT one

Needs the Python package datasets. Writes FOLDER/TASK.jsonl (the rows that are scored) and FOLDER/TASK.fewshot.jsonl (the
rows that examples are taken from), with the data sets' own fields. Files that are there are kept. A task that fails is named at
the end, after the others. The data set of pubmedqa is a script, which datasets runs only before version 4, if
HF_DATASETS_TRUST_REMOTE_CODE=1 is set.
"""
import pathlib
import sys

import datasets

# task: data set, configuration, split of the items, split of the examples
TASKS = {
    "arc_challenge": ("allenai/ai2_arc", "ARC-Challenge", "test", "train"),
    "arc_easy": ("allenai/ai2_arc", "ARC-Easy", "test", "train"),
    "openbookqa": ("allenai/openbookqa", "main", "test", "train"),
    "piqa": ("baber/piqa", None, "validation", "train"),
    "hellaswag": ("Rowan/hellaswag", None, "validation", "train"),
    "winogrande": ("allenai/winogrande", "winogrande_xl", "validation", "train"),
    "mathqa": ("regisss/math_qa", None, "test", "train"),
    "pubmedqa": ("bigbio/pubmed_qa", "pubmed_qa_labeled_fold0_source", "test", "train"),
    "sciq": ("allenai/sciq", None, "test", "train"),
    "social_iqa": ("lighteval/siqa", None, "validation", "train"),
    "commonsense_qa": ("tau/commonsense_qa", None, "validation", "train"),
}
MMLU = "cais/mmlu"
NOT_SUBJECTS = {"all", "auxiliary_train"}


def source(task):
    """The line of the table; MMLU has a configuration for each subject."""
    if task.startswith("mmlu_"):
        return MMLU, task.removeprefix("mmlu_"), "test", "dev"
    if task not in TASKS:
        sys.exit(f"{task}: unknown task, expected {', '.join(TASKS)}, mmlu or mmlu_SUBJECT")
    return TASKS[task]


def expand(tasks):
    for task in tasks:
        if task != "mmlu":
            yield task
            continue
        for subject in sorted(set(datasets.get_dataset_config_names(MMLU)) - NOT_SUBJECTS):
            yield f"mmlu_{subject}"


def export(folder, task):
    data, configuration, items, examples = source(task)
    for split, path in ((items, folder / f"{task}.jsonl"), (examples, folder / f"{task}.fewshot.jsonl")):
        if path.exists():
            print(f"{path}: is there")
            continue
        part = path.with_name(path.name + ".part")
        rows = datasets.load_dataset(data, configuration, split=split)
        rows.to_json(part)
        part.rename(path)
        print(f"{path}: {len(rows)} rows")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for task in expand(sys.argv[2:] or [*TASKS, "mmlu"]):
        try:
            export(folder, task)
        except Exception as why:  # one data set that is not to be had is no reason to lack the others
            failed.append(f"{task}: {why}")
    if failed:
        sys.exit("\n".join(failed))


main()
