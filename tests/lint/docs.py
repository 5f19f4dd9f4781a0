#!/usr/bin/env python3
"""Rules of the Markdown pages: docs.py RULE ROOT.

Each rule prints what breaks it and where; the exit status is 1 if anything does. The rules are the functions named in
RULES."""
import glob
import os
import re
import sys

ENVIRONMENT = "docs/environment.md"
TESTS = "tests/README.md"
QUESTIONS = "docs/questions.md"
SHELL_OWN = {  # bash, the system and ctest set them
    "BASH_SOURCE", "COMPREPLY", "EPOCHREALTIME", "PIPESTATUS", "RANDOM", "SECONDS", "PATH", "PWD", "UID", "HOME", "SOURCE"}


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def anchors(text):
    """What GitHub calls the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links():
    """Every link inside the repository leads to a file, and to a heading of it; every page of docs/ is linked from another; a heading is short."""
    pages = sorted(path for path in glob.glob("**/*.md", recursive=True) if not path.startswith("build/"))
    linked = {"README.md"}
    for page in pages:
        text = read(page)
        for head in re.finditer(r"^#+ .{90,}", text, flags=re.M):
            yield page, line_of(text, head.start()), "a heading of more than 90 characters; its paragraph begins on the next line"
        for link in re.finditer(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)", text):
            path = os.path.normpath(os.path.join(os.path.dirname(page), link.group(1))) if link.group(1) else page
            linked.add(path)
            if not os.path.exists(path):
                yield page, line_of(text, link.start()), f"{link.group(1)} is not there"
            elif link.group(2) and link.group(2)[1:] not in anchors(read(path)):
                yield page, line_of(text, link.start()), f"{path} has no heading {link.group(2)}"
    for page in pages:
        if page.startswith("docs/") and page not in linked and os.path.dirname(page) not in linked:
            yield page, 1, "no other page links to it"


def environment():
    """Every variable that the program or a script reads is on the page of environment variables, or on that of the tests."""
    known = set(re.findall(r"`([A-Z]\w+)`", read(ENVIRONMENT)))
    of_tests = known | (set(re.findall(r"`([A-Z]\w+)`", read(TESTS))) if os.path.exists(TESTS) else set())
    for path in sorted(p for folder in ("src", "tests") for p in glob.glob(f"{folder}/**/*.c", recursive=True)):
        text = read(path)
        for use in re.finditer(r'\b(?:getenv|env_integer)\("(\w+)"\)', text):
            if use.group(1) not in (of_tests if path.startswith("tests/") else known):
                yield path, line_of(text, use.start()), f"{use.group(1)} is not in {ENVIRONMENT}"
    for path in sorted(p for folder in ("jobs", "slurm", "tests") for p in glob.glob(f"{folder}/**/*", recursive=True)
                       if re.search(r"\.(sh|sbatch)$", p)):
        text = read(path)
        own = set(re.findall(r"^\s*(?:local |export |readonly )?([A-Z][A-Z0-9_]+)=", text, flags=re.M)) | SHELL_OWN
        for use in re.finditer(r"\$\{?([A-Z][A-Z0-9_]+)(:?-)?", text):
            if use.group(1) in (of_tests if path.startswith("tests/") else known):
                continue
            if use.group(2) or use.group(1) not in own:
                yield path, line_of(text, use.start()), f"{use.group(1)} is not in {ENVIRONMENT}"


def sources_texts():
    """The texts of the sources' literals, neighbours joined, a conversion such as %s as one NUL, %% as %."""
    for path in glob.glob("src/**/*.[ch]", recursive=True):
        text = re.sub(r'"\s*"', "", read(path))
        for literal in re.findall(r'"((?:\\.|[^"\\\n])*)"', text):
            literal = literal.replace('\\"', '"').replace("%%", "\1")
            yield re.sub(r"%[-+ #0]*[\d.*]*(?:ll|z|l|h)?[a-zA-Z]", "\0", literal).replace("\1", "%")


def messages():
    """A message that the page of questions quotes, as `> message`, is one that the program prints. What varies in it is … ."""
    texts = list(sources_texts())
    page = read(QUESTIONS)
    for quote in re.finditer(r"^> `([^`]+)`$", page, flags=re.M):
        pattern = "[^\0]*\0[^\0]*".join(re.escape(part) for part in quote.group(1).split("…"))
        if not any(re.search(pattern, text) for text in texts):
            yield QUESTIONS, line_of(page, quote.start()), f"no message of the program reads so: {quote.group(1)}"


RULES = {rule.__name__: rule for rule in (links, environment, messages)}


def main():
    os.chdir(sys.argv[2])
    broken = list(RULES[sys.argv[1]]())
    for path, line, what in broken:
        print(f"{path}:{line}: {what}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
