"""Adds the code of a Markdown page to a tree of sources:  apply_page.py PAGE.md FOLDER

A block of C below the line "`PATH`:" becomes that file, which must not be there; below "`PATH`, below `TEXT`:" it is put
below the first line of the file that begins with the text. Every block of C has such a line."""
import pathlib
import re
import sys

page, folder = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), pathlib.Path(sys.argv[2])
BLOCK = re.compile(r"^`([^`]+)`(?:, below `([^`]+)`)?:\n\n```c\n(.*?)^```", re.M | re.S)
for path, text, code in BLOCK.findall(page):
    file = folder / path
    if text:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        at = [i for i, line in enumerate(lines) if line.lstrip().startswith(text)]
        if not at:
            sys.exit(f"{path}: no line begins with {text}")
        lines.insert(at[0] + 1, code)
        code = "".join(lines)
    elif file.exists():
        sys.exit(f"{path}: is there already")
    file.write_text(code, encoding="utf-8")
count = len(BLOCK.findall(page))
if count != page.count("\n```c\n"):
    sys.exit(f"{page.count(chr(10) + '```c' + chr(10))} blocks of C, {count} have a path")
