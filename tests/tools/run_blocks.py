"""Runs the blocks of a Markdown page one after the other, as a reader would:  run_blocks.py DOC.md [CUBE.h5 | --each]

Blocks marked python run in one namespace, with --each only after the first of them, as if no other had run; CUBE.h5 replaces the name
of the quickstart's cube in them. Blocks marked sh
run in bash, which ends at the first command that fails; exported variables go over to the next block. A block
marked text below a block marked sh shows what that one prints, standard error included: every line of it must be
there, in this order, where numbers and the width of gaps and rules may differ and a line of three dots stands for lines
that are left out."""

import difflib
import os
import re
import subprocess
import sys
import tempfile

CUBE = r'"results/quickstart\.h5"'


def blocks_of(page):
    """(language, line of its first line, code) of each fenced block."""
    for m in re.finditer(r"^```(\w+)\n(.*?)^```", page, re.M | re.S):
        yield m.group(1), page.count("\n", 0, m.start(2)) + 1, m.group(2)


def mask(line):
    """The line without what differs from run to run."""
    line = re.sub(r"\b[0-9a-f]{32}\b", "#", line)
    line = re.sub(r"[-+]?\d[\d.,:]*(e[-+]?\d+)?", "#", line)
    line = re.sub(r"([-─=])\1+", r"\1", line)
    return " ".join(line.split())


def run_python(name, line, code, cube, space):
    code = re.sub(CUBE, repr(cube), code) if cube else code
    exec(compile("\n" * (line - 1) + code, name, "exec"), space)


def run_shell(name, line, code, state):
    """What the block prints; ends the program if it fails."""
    script = f". {state}\n{code}\ndeclare -px >{state}\n"
    done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}:{line}: exit code {done.returncode} of\n{code}\n{done.stdout}")
    return done.stdout


def compare(name, line, shown, printed):
    """Ends the program where the page shows a line that the block before it did not print."""
    lines = [mask(text) for text in printed.splitlines()]
    at = 0
    for i, text in enumerate(shown.splitlines()):
        wanted = mask(text)
        if not wanted or wanted == "...":
            continue
        if wanted not in lines[at:]:
            near = difflib.get_close_matches(wanted, lines[at:], 1, 0)
            sys.exit(f"{name}:{line + i}: the page shows\n  {text}\nbut printed is, nearest to it,\n  {near[0] if near else 'nothing'}\nin\n{printed}")
        at = lines.index(wanted, at) + 1


def main():
    name, more = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    each, cube = more == "--each", None if more == "--each" else more
    with open(name, encoding="utf-8") as f:
        page = f.read()
    space, printed, count, begun = {"__name__": "page"}, None, 0, False
    with tempfile.NamedTemporaryFile() as state:
        for language, line, code in blocks_of(page):
            if language == "python":
                run_python(name, line, code, cube, dict(space) if each and begun else space)
                begun = True
            elif language == "sh":
                printed = run_shell(name, line, code, state.name)
            elif language == "text" and printed is not None:
                compare(name, line, code, printed)
                printed = None
            count += language in ("python", "sh")
    print(f"{count} blocks")


if __name__ == "__main__":
    main()
