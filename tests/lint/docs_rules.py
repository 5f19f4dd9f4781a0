#!/usr/bin/env python3
"""Every rule of docs.py finds what breaks it and leaves alone what does not."""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import docs  # noqa: E402

README = "# A\n[b](docs/b.md#two-words-c) [questions](docs/questions.md) [environment](docs/environment.md) [u](https://u/v.md)\n"
FILES = {"README.md": README, "docs/b.md": "## Two words: `c`\n[up](../README.md) [here](#two-words-c)\n",
         "docs/questions.md": "> `: no … in …, give one`\n", "docs/environment.md": "| `HERE` | `OMPI_x` |\n",
         "src/a.c": 'f("%s: no %lld in %-5s, "\n  "give one"); getenv("HERE"); getenv("OMPI_x");\n', "jobs/a.sh": "X=1\necho $X ${HERE:-} $PWD\n"}
# rule, files that differ, path and line that it names
SAMPLES = [
    ("links", {}, []),
    ("links", {"README.md": README + "[c](docs/c.md)\n"}, [("README.md", 3)]),
    ("links", {"README.md": README.replace("two-words", "three-words")}, [("README.md", 2)]),
    ("links", {"docs/c.md": "# C\n"}, [("docs/c.md", 1)]),
    ("environment", {}, []),
    ("environment", {"src/b.c": 'getenv("NOWHERE")'}, [("src/b.c", 1)]),
    ("environment", {"tests/b.sh": "\necho $NOWHERE"}, [("tests/b.sh", 2)]),
    ("environment", {"slurm/b.sbatch": "NOWHERE=${NOWHERE:-1}"}, [("slurm/b.sbatch", 1)]),
    ("messages", {}, []),
    ("messages", {"docs/questions.md": "\n> `: no …, give one`\n"}, [("docs/questions.md", 2)]),
    ("messages", {"docs/questions.md": "> `give two`\n"}, [("docs/questions.md", 1)]),
]

wrong = 0
for rule, changes, expected in SAMPLES:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for path, text in {**FILES, **changes}.items():
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        found = [(path, line) for path, line, _ in docs.RULES[rule]()]
        os.chdir("/")
    if found != expected:
        wrong += 1
        print(f"{rule} names {found}, not {expected}, with {changes}")
sys.exit(wrong != 0)
