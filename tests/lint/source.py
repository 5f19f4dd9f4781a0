#!/usr/bin/env python3
"""Rules of src/ that neither the compiler nor clang-format knows: source.py RULE ROOT.

Each rule prints what breaks it and where; the exit status is 1 if anything does. The rules are the functions named in
RULES. The parser knows as much of C as files in clang-format's layout need."""
import bisect
import glob
import os
import re
import sys

LONGEST = 50  # lines of a function, its signature included
FILE_LINES, FOLDER_LINES = 450, 6500
READERS = r"\b(tokenizer_open|dataset_load|dataset_draw|requests_make|prompts_open|json_read_\w+|fsx_read|hash_file)\("


def blank(match):
    """As many lines and characters, all blank."""
    return re.sub(r"[^\n]", " ", match.group())


def strip(text):
    """Comments and the contents of literals blanked; every character keeps its place."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def matching(code, at):
    """The place behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "({[") - (code[i] in ")}]")
        if depth == 0:
            return i + 1
    return len(code)


def statement_end(code, at):
    """The place behind the statement that starts at `at` or after the blanks there."""
    at += len(code[at:]) - len(code[at:].lstrip())
    if code.startswith("#", at):  # a further pragma applies to the same statement
        return statement_end(code, re.compile(r"(?:\\\n|[^\n])*").match(code, at).end())
    if code.startswith("{", at):
        return matching(code, at)
    head = re.compile(r"(?:for|while|if|switch)\s*\(").match(code, at)
    if not head:
        return code.find(";", at) + 1 or len(code)
    end = statement_end(code, matching(code, head.end() - 1))
    other = re.compile(r"\s*else\b").match(code, end)
    return statement_end(code, other.end()) if other else end


def openmp(path, text):
    """TRY, ENSURE and FAIL jump to `done:`; PASS, NEED and RAISE return. Neither may leave an OpenMP region."""
    code = strip(text)
    for pragma in re.finditer(r"^[ \t]*#[ \t]*pragma omp ((?:\\\n|[^\n])*)", code, flags=re.M):
        if re.match(r"(?:barrier|taskwait|threadprivate|declare|flush)\b", pragma.group(1)):
            continue
        end = statement_end(code, pragma.end())
        for jump in re.finditer(r"\b(?:TRY|ENSURE|FAIL|PASS|NEED|RAISE|goto|return)\b", code[pragma.end() : end]):
            at = line_of(code, pragma.end() + jump.start())
            yield at, f"{jump.group()} inside the OpenMP region of line {line_of(code, pragma.start())}"


def forms(path, text):
    """A function has one form: with a label, TRY, ENSURE and FAIL; without one, PASS, NEED and RAISE, and variables that
    are freed when they leave their scope (util/err.h). These have a value from the start, as any return frees them; a
    jump to a label could pass their declaration by and free what was never set."""
    code = strip(text)
    for body in re.finditer(r"^\{$.*?^\}$", code, flags=re.M | re.S):
        labelled = re.search(r"^done:", body.group(), flags=re.M)
        for use in re.finditer(r"\b(?:PASS|NEED|RAISE)\(" if labelled else r"\b(?:TRY|ENSURE|FAIL)\(", body.group()):
            at = line_of(code, body.start() + use.start())
            yield at, f"{use.group()[:-1]} in a function {'with' if labelled else 'without'} a label done:"
        for use in re.finditer(r"\b(?:AUTO_FREE|CLEANUP\(\w+\)|json_auto_t)([^;]*);", body.group()):
            declared, nested = use.group(1), r"\([^()]*\)|\{[^{}]*\}|\[[^][]*\]"
            while re.search(nested, declared):
                declared = re.sub(nested, "", declared)
            at = line_of(code, body.start() + use.start())
            if labelled:
                yield at, "a variable that frees itself in a function with a label done:"
            elif not all("=" in name for name in declared.split(",")):
                yield at, "a variable that frees itself has no value from the start"


def functions(path, text):
    """A function of more than 50 lines does more than one thing."""
    lines = strip(text).split("\n")
    first = 0  # line of the signature
    for i, line in enumerate(lines):
        if line == "{":
            first = i
            while first > 0 and lines[first - 1].strip() and lines[first - 1][-1] not in ";}":
                first -= 1
            while lines[first].startswith("#"):
                first += 1
        elif line == "}" and i + 1 - first > LONGEST:
            yield first + 1, f"a function of {i + 1 - first} lines, at most {LONGEST} are allowed"


def contracts(path, text):
    """A header opens with a comment, and a comment stands above every function that it declares or above the group of
    lines without a blank one between that it belongs to."""
    if not path.endswith(".h"):
        return
    if not text.startswith("/*"):
        yield 1, "a header opens with a comment that says what it is for"
    code = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", blank, strip(text), flags=re.M)
    flat = re.sub(r"\{[^{}]*\}", blank, re.sub(r"\{[^{}]*\}", blank, re.sub(r"\{[^{}]*\}", blank, code)))
    groups = [0] + [m.end() for m in re.finditer(r"\n[ \t]*\n", text)]
    for found in re.finditer(r"(?:^|[;}\n])\s*((?!typedef|extern|struct \w+\s*;)[\w][^;{}#]*?\b(\w+)\s*\()", flat):
        name, at = found.group(2), found.start(1)
        if name in ("__attribute__", "_Static_assert", "defined") or found.group(1).count("(") > 1:
            continue
        group = groups[bisect.bisect_right(groups, at) - 1]
        if "/*" not in text[group:at] and "//" not in text[group:at]:
            yield line_of(text, at), f"{name} has no comment above it that says what it does"


def openings(path, text):
    """A source file without a header of its own opens with a sentence on what it is for."""
    if path.endswith(".c") and not os.path.exists(path[:-1] + "h") and not text.startswith("/*"):
        yield 1, "no header of its own, so it opens with a comment that says what it is for"


def layers(path, text):
    """layers.txt says which folders a folder may include; only main.c starts MPI for the whole program; what a visit reads is
    compared with its plan in one place; temporary names come from one."""
    if path.count("/") < 2:
        return
    folder = path.split("/")[1]
    with open("tests/lint/layers.txt", encoding="utf-8") as file:
        lines = [line.split(":") for line in file if not line.startswith("#")]
    allowed = {folder, *dict(lines).get(folder, "").split()}
    for include in re.finditer(r'^#include "(\w+)/', text, flags=re.M):
        if include.group(1) not in allowed:
            yield line_of(text, include.start()), f"{folder} may not include {include.group(1)}"
    for world in re.finditer(r"\bMPI_COMM_WORLD\b", text):
        yield line_of(text, world.start()), "only main.c names MPI_COMM_WORLD"
    for name in re.finditer(r"\bmem_format\([^;]*\bgetpid\(\)", strip(text)) if path != "src/util/temporary.c" else ():
        yield line_of(text, name.start()), "temporary_begin makes temporary names: two hosts have equal processes"
    if folder in ("engine", "measures") and path not in ("src/engine/inputs.c", "src/export/export_note.c", "src/export/model_card.c"):  # the latter are outputs
        for reader in re.finditer(READERS, strip(text)):
            yield line_of(text, reader.start()), f"only engine/inputs.c calls {reader.group(1)}, and compares the digest"


def names(files):
    """Two files of one name, apart from a header and its source."""
    first = {}
    for path in files:
        stem = os.path.splitext(os.path.basename(path))[0]
        folder = first.setdefault(stem, os.path.dirname(path))
        if folder != os.path.dirname(path):
            yield path, 1, f"{folder} has a file of this name too"


def circles(files):
    """No unit (x.h with x.c and x_internal.h) includes others that lead back to it."""

    def unit(path):
        return re.sub(r"^src/|(_internal)?(\.[ch])?$", "", path)

    uses = {}
    for path, text in files.items():
        uses.setdefault(unit(path), set()).update(map(unit, re.findall(r'^#include "([^"]+)"', text, flags=re.M)))
    leads_to = {}
    for start in uses:
        seen, stack = set(), [start]
        while stack:
            more = uses.get(stack.pop(), set()) - seen
            seen |= more
            stack += more
        leads_to[start] = seen
    for start in sorted(uses):
        others = sorted(u for u in leads_to[start] - {start} if start in leads_to.get(u, ()))
        if others and start < others[0]:
            yield f"src/{start}.h", 1, f"in a circle of files with {', '.join(others)}"


def sizes(files):
    """A file of more than 450 lines, or a folder of more than 6,500, holds more than one thing."""
    folders = {}
    for path, text in files.items():
        lines = text.count("\n")
        folders[os.path.dirname(path)] = folders.get(os.path.dirname(path), 0) + lines
        if lines > FILE_LINES:
            yield path, FILE_LINES, f"a file of {lines} lines, at most {FILE_LINES} are allowed"
    for folder, lines in folders.items():
        if lines > FOLDER_LINES:
            yield folder, 1, f"a folder of {lines} lines, at most {FOLDER_LINES} are allowed"


RULES = {rule.__name__: rule for rule in (layers, openmp, forms, functions, contracts, openings, names, circles, sizes)}


def main():
    rule = RULES[sys.argv[1]]
    os.chdir(sys.argv[2])
    files = {p: open(p, encoding="utf-8").read() for p in sorted(glob.glob("src/**/*.[ch]", recursive=True))}
    if rule in (names, circles, sizes):
        broken = list(rule(files))
    else:
        broken = [(p, *found) for p, text in files.items() for found in rule(p, text)]
    for path, line, what in broken:
        print(f"{path}:{line}: {what}")
    sys.exit(1 if broken or not files else 0)


if __name__ == "__main__":
    main()
