"""Adds the code of a Markdown page to a tree of sources:  apply_page.py PAGE.md FOLDER

A block of C below the line "`PATH`, below `TEXT`:" is put below the first line of that file that begins with the text. Every block of C has
such a line. A line "[`PATH`](FILE)" names a file beside the page that becomes PATH, which must not be there. Each file below the folder that
has the page's name is named so."""
import pathlib
import re
import sys

source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
page = source.read_text(encoding="utf-8")
BLOCK = re.compile(r"^`([^`]+)`, below `([^`]+)`:\n\n```c\n(.*?)^```", re.M | re.S)
FILE = re.compile(r"^\[`([^`]+)`\]\((.+)\)$", re.M)
for path, text, code in BLOCK.findall(page):
    file = folder / path
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if line.lstrip().startswith(text)]
    if not at:
        sys.exit(f"{path}: no line begins with {text}")
    lines.insert(at[0] + 1, code)
    file.write_text("".join(lines), encoding="utf-8")
for path, name in FILE.findall(page):
    file = folder / path
    if file.exists():
        sys.exit(f"{path}: is there already")
    file.write_text((source.parent / name).read_text(encoding="utf-8"), encoding="utf-8")
named = {source.parent / name for _, name in FILE.findall(page)}
others = sorted(set(source.with_suffix("").rglob("*.c")) - named)
if others or not named:
    sys.exit(f"not named on the page: {', '.join(map(str, others)) or 'any file'}")
count = len(BLOCK.findall(page))
if count != page.count("\n```c\n"):
    sys.exit(f"{page.count(chr(10) + '```c' + chr(10))} blocks of C, {count} have a path")
