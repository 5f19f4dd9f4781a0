#!/usr/bin/env python3
"""Every rule of docs.py finds what breaks it and leaves alone what does not; so does tests/tools/run_blocks.py."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
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
    ("links", {"docs/b.md": FILES["docs/b.md"] + "## Memory " + "words " * 20}, [("docs/b.md", 3)]),
    ("environment", {}, []),
    ("environment", {"src/b.c": 'getenv("NOWHERE")'}, [("src/b.c", 1)]),
    ("environment", {"tests/b.sh": "\necho $NOWHERE"}, [("tests/b.sh", 2)]),
    ("environment", {"slurm/b.sbatch": "NOWHERE=${NOWHERE:-1}"}, [("slurm/b.sbatch", 1)]),
    ("environment", {"tests/README.md": "`OF_TESTS`", "tests/b.sh": "echo $OF_TESTS"}, []),
    ("environment", {"tests/README.md": "`OF_TESTS`", "src/b.c": 'getenv("OF_TESTS")'}, [("src/b.c", 1)]),
    ("messages", {}, []),
    ("messages", {"docs/questions.md": "\n> `: no …, give one`\n"}, [("docs/questions.md", 2)]),
    ("messages", {"docs/questions.md": "> `give two`\n"}, [("docs/questions.md", 1)]),
]
SHELL, SHOWN, PYTHON = ("```%s\n%%s\n```\n" % language for language in ("sh", "text", "python"))
# page, whether its blocks run and print what it shows
PAGES = [
    (SHELL % "export X=3" + SHELL % "test $X = 3" + PYTHON % "x = 1" + PYTHON % "assert x", True),
    (SHELL % "false\ntrue", False),
    (PYTHON % "assert False", False),
    (SHELL % "echo 'a   1.5 ± 2e-3'; echo b >&2; echo c" + SHOWN % "a  -7 ± 0.1\n...\nc", True),
    (SHELL % "echo a 1" + SHOWN % "b 1", False),
    (SHELL % "echo a; echo b" + SHOWN % "b\na", False),
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
for page, good in PAGES:
    with tempfile.NamedTemporaryFile("w", suffix=".md") as f:
        f.write(page)
        f.flush()
        done = subprocess.run([sys.executable, f"{HERE}/../tools/run_blocks.py", f.name], capture_output=True, text=True)
    if (done.returncode == 0) != good:
        wrong += 1
        print(f"run_blocks.py ends with {done.returncode} for\n{page}{done.stdout}{done.stderr}")
sys.exit(wrong != 0)
